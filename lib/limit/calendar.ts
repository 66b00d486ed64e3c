import { checkThat } from '../option-checks.js'

// No time zone differs from UTC by more, in milliseconds.
const largestOffset = 16 * 3_600_000

export const assertTimeZone = checkThat('must be the name of an IANA time zone, such as Europe/Berlin', (value) => {
  if (typeof value !== 'string' || !/^[A-Za-z]/.test(value)) return false
  try {
    return new Intl.DateTimeFormat('en', { timeZone: value }).resolvedOptions().timeZone !== ''
  } catch {
    return false
  }
})

/** The days or months of a time zone (docs/rules.md, "Several quotas"). */
export class Calendar {
  readonly #format: Intl.DateTimeFormat
  readonly #period: 'day' | 'month'
  // The day or month that was asked for last.
  #start = Infinity
  #end = -Infinity

  constructor (period: 'day' | 'month', timeZone: string) {
    this.#period = period
    const parts = { year: 'numeric', month: 'numeric', day: 'numeric' } as const
    this.#format = new Intl.DateTimeFormat('en-US', { timeZone, calendar: 'iso8601', numberingSystem: 'latn', ...parts })
  }

  /**
   * Returns when the day or month of a time ends, both in milliseconds since the epoch. It depends on the local date alone, so that
   * processes with different clocks agree on it, also where clocks are set back across midnight.
   */
  endOf (time: number): number {
    if (time < this.#start || time >= this.#end) {
      this.#start = time
      this.#end = this.#findEnd(this.#dateOf(time))
      // Clocks that are set back across midnight make a date occur again after the end of its day.
      if (this.#end <= time) this.#end = this.#findEnd(this.#dateOf(this.#end))
    }
    return this.#end
  }

  /** Finds by bisection the time from which on the local date is later than the given day, or the month of that day. */
  #findEnd (date: number): number {
    const next = new Date(date)
    if (this.#period === 'day') next.setUTCDate(next.getUTCDate() + 1)
    else next.setUTCMonth(next.getUTCMonth() + 1, 1)
    let before = Number(next) - largestOffset
    let after = Number(next) + largestOffset
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (this.#dateOf(middle) >= Number(next)) after = middle
      else before = middle
    }
    return after
  }

  /** Returns the local date, as the time at which the same date begins in UTC. */
  #dateOf (time: number): number {
    const parts = Object.fromEntries(this.#format.formatToParts(time).map(({ type, value }) => [type, Number(value)]))
    return Date.UTC(Number(parts.year), Number(parts.month) - 1, Number(parts.day))
  }
}
