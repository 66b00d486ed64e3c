import { checkThat } from '../option-checks.js'

const hour = 3_600_000
// No time zone differs from UTC by more.
const largestOffset = 16 * hour

export const assertTimeZone = checkThat(
  'must be the name of an IANA time zone, such as Europe/Berlin',
  (value) => {
    try {
      // An offset such as +01:00 is no name.
      return (
        typeof value === 'string' &&
        /^[A-Za-z]/.test(value) &&
        Boolean(new Intl.DateTimeFormat('en', { timeZone: value }))
      )
    } catch {
      return false
    }
  }
)

/** The days or months of a time zone (docs/rules.md, "Several quotas"). */
export class Calendar {
  readonly #format: Intl.DateTimeFormat
  // The day or month that was asked for last.
  #known = { start: Infinity, end: -Infinity }

  constructor (
    readonly period: 'day' | 'month',
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
    const next =
      this.period === 'day'
        ? date + 24 * hour
        : new Date(date).setUTCMonth(new Date(date).getUTCMonth() + 1, 1)
    let [before, after] = [next - largestOffset, next + largestOffset]
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (this.#dateOf(middle) >= next) after = middle
      else before = middle
    }
    return after
  }

  /** Returns the local date, as the time at which the same date begins in UTC. */
  #dateOf (time: number): number {
    const { year, month, day } = Object.fromEntries(
      this.#format.formatToParts(time).map(({ type, value }) => [type, Number(value)])
    )
    return Date.UTC(Number(year), Number(month) - 1, Number(day))
  }
}
