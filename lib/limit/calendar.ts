import { format } from '../errors.js'
import { checkThat } from '../option-checks.js'
import { ignoreRejection } from '../promises.js'
import { required } from '../required.js'

const hour = 3_600_000

/** The largest difference of a time zone from UTC, rounded up, in milliseconds. */
const largestOffset = 16 * hour

const timeZoneRule = 'must be the name of an IANA time zone, such as Europe/Berlin'

/** Whether a value is the name of a time zone. An offset such as +01:00 is no name. */
function isTimeZone (value: unknown): value is string {
  if (typeof value !== 'string' || !/^[A-Za-z]/.test(value)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: value }).format(0)
    return true
  } catch {
    return false
  }
}

export const assertTimeZone = checkThat(timeZoneRule, isTimeZone)

/** What a calendar divides the time into. */
export type CalendarPeriod = 'day' | 'month'

/** The days or months of a time zone (docs/rules.md, "Several quotas"). */
export class Calendar {
  readonly #format: Intl.DateTimeFormat

  /** The day or month that was asked for last. */
  #known = { start: Infinity, end: -Infinity }

  constructor (
    readonly period: CalendarPeriod,
    timeZone: string
  ) {
    this.#format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'iso8601',
      numberingSystem: 'latn'
    })
  }

  /**
   * Returns when the day or month of a time ends, both in milliseconds since the epoch. It depends
   * on the local date alone, so that processes with different clocks agree on it, also where clocks
   * are set back across midnight.
   */
  endOf (time: number): number {
    if (time >= this.#known.start && time < this.#known.end) return this.#known.end
    const end = this.#endOfDate(this.#dateOf(time))
    // Clocks that are set back across midnight make a date occur again after the end of its day.
    this.#known = { start: time, end: end > time ? end : this.#endOfDate(this.#dateOf(end)) }
    return this.#known.end
  }

  /**
   * Finds by bisection the time from which on the local date is later than the given day, or the
   * month of that day.
   */
  #endOfDate (date: number): number {
    const next = this.period === 'day' ? date + 24 * hour : startOfNextMonth(date)
    let before = next - largestOffset
    let after = next + largestOffset
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (this.#dateOf(middle) >= next) after = middle
      else before = middle
    }
    return after
  }

  /** Returns the local date, as the time at which the same date begins in UTC. */
  #dateOf (time: number): number {
    const parts = this.#format.formatToParts(time)
    return Date.UTC(numberIn(parts, 'year'), numberIn(parts, 'month') - 1, numberIn(parts, 'day'))
  }
}

function startOfNextMonth (date: number): number {
  const day = new Date(date)
  return Date.UTC(day.getUTCFullYear(), day.getUTCMonth() + 1, 1)
}

function numberIn (
  parts: readonly Intl.DateTimeFormatPart[],
  type: 'year' | 'month' | 'day'
): number {
  const part = required(
    parts.find((each) => each.type === type),
    `the ${type} of the formatted date`
  )
  return Number(part.value)
}

/** How many time zones a quota remembers. Calculating the end of a day anew takes about 0.1 ms. */
const mostCalendars = 100

/** The calendars of the time zones of a quota's callers. The oldest one is evicted. */
export class Calendars {
  readonly #byTimeZone = new Map<string, Calendar>()

  constructor (readonly period: CalendarPeriod) {}

  /**
   * Returns the calendar of a time zone.
   *
   * @param timeZone What the host's function returned.
   * @throws {TypeError} If it is not the name of a time zone.
   */
  of (timeZone: unknown): Calendar {
    if (typeof timeZone === 'string') {
      const known = this.#byTimeZone.get(timeZone)
      if (known !== undefined) return known
    }
    if (!isTimeZone(timeZone)) {
      ignoreRejection(timeZone)
      throw new TypeError(`timeZone ${timeZoneRule}; it got ${format(timeZone)}`)
    }
    const calendar = new Calendar(this.period, timeZone)
    const [oldest] = this.#byTimeZone.keys()
    if (oldest !== undefined && this.#byTimeZone.size >= mostCalendars) {
      this.#byTimeZone.delete(oldest)
    }
    this.#byTimeZone.set(timeZone, calendar)
    return calendar
  }
}
