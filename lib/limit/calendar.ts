import { format } from '../errors.js'
import { checkThat } from '../option-checks.js'
import { ignoreRejection } from '../promises.js'
import { required } from '../required.js'
import type { QuotaPeriod } from './limit.js'

const hour = 3_600_000
const day = 24 * hour

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

/** What a calendar divides the time into. Weeks begin on Monday. */
export type CalendarPeriod = 'day' | 'week' | 'month'

/** Whether the windows of a quota can be those of a time zone. */
export function isCalendarPeriod (period: QuotaPeriod): period is CalendarPeriod {
  return period === 'day' || period === 'week' || period === 'month'
}

/** A day, week or month of a time zone, in milliseconds since the epoch. */
export interface CalendarWindow {
  readonly start: number
  /** When the next one starts. */
  readonly end: number
}

/** The days, weeks or months of a time zone (docs/rules.md, "Time zones"). */
export class Calendar {
  readonly #format: Intl.DateTimeFormat

  /** The window that was asked for last. */
  #known: CalendarWindow = { start: Infinity, end: -Infinity }

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
   * Returns the day, week or month of a time. They follow each other without gaps, and none depends
   * on when it is asked for, so that processes with different clocks agree on each.
   *
   * @param time Milliseconds since the epoch.
   */
  windowOf (time: number): CalendarWindow {
    const isKnown = time >= this.#known.start && time < this.#known.end
    if (!isKnown) this.#known = this.#determine(time)
    return this.#known
  }

  #determine (time: number): CalendarWindow {
    const first = firstDateOf(this.period, this.#dateOf(time))
    const next = nextFirstDate(this.period, first)
    const start = this.#startOf(first)
    const end = this.#startOf(next)
    // Where clocks are set back across midnight, both dates occur twice, and the later one starts
    // at one of the two midnights, always the same.
    if (time < start) {
      return { start: this.#startOf(firstDateOf(this.period, first - day)), end: start }
    }
    if (time >= end) {
      return { start: end, end: this.#startOf(nextFirstDate(this.period, next)) }
    }
    return { start, end }
  }

  /**
   * Returns when a local date starts: by bisection, a time just before which the local date is
   * earlier, and at which it is not.
   */
  #startOf (date: number): number {
    let before = date - largestOffset
    let after = date + largestOffset
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (this.#dateOf(middle) >= date) after = middle
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

/** Returns the first date of the day, week or month that a date belongs to. */
function firstDateOf (period: CalendarPeriod, date: number): number {
  const utc = new Date(date)
  if (period === 'day') return date
  if (period === 'month') return Date.UTC(utc.getUTCFullYear(), utc.getUTCMonth(), 1)
  const daysSinceMonday = (utc.getUTCDay() + 6) % 7
  return date - daysSinceMonday * day
}

/** Returns the first date of the next day, week or month. */
function nextFirstDate (period: CalendarPeriod, firstDate: number): number {
  if (period === 'day') return firstDate + day
  if (period === 'week') return firstDate + 7 * day
  const utc = new Date(firstDate)
  return Date.UTC(utc.getUTCFullYear(), utc.getUTCMonth() + 1, 1)
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

/** How many time zones a quota remembers. Determining a day anew takes about 0.2 ms. */
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
