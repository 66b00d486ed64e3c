import { checkThat } from '../option-checks.js'
import { required } from '../required.js'

/** What a time zone must be, for error messages. */
export const timeZoneRule = 'must be the name of an IANA time zone, such as Europe/Berlin'

/** Whether a value is the name of a time zone. An offset such as +01:00 is no name. */
export function isTimeZone (value: unknown): value is string {
  if (typeof value !== 'string' || !/^[A-Za-z]/.test(value)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: value }).format(0)
    return true
  } catch {
    return false
  }
}

export const assertTimeZone = checkThat(timeZoneRule, isTimeZone)

/** The largest difference of a time zone from UTC, rounded up, in milliseconds. */
const largestOffset = 16 * 3_600_000

/**
 * The local time of a time zone. A local time is a number, too: that of the milliseconds since the
 * epoch at which the clocks of UTC show the same.
 */
export class LocalTime {
  readonly #format: Intl.DateTimeFormat

  /** @param timeZone The name of an IANA time zone. */
  constructor (timeZone: string) {
    this.#format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'iso8601',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric'
    })
  }

  /** Returns the local time at a time, which is in milliseconds since the epoch. */
  at (time: number): number {
    return time + this.#offsetAt(time)
  }

  /**
   * Returns when the clocks show a local time, in milliseconds since the epoch. Where they show it
   * twice, because they are set back, the first time; where they skip it, the next moment.
   */
  timeOf (local: number): number {
    // Clocks are changed months apart, so at most one change is within these two offsets.
    const before = local - this.#offsetAt(local - largestOffset)
    if (this.at(before) === local) return before
    const after = local - this.#offsetAt(local + largestOffset)
    if (this.at(after) === local) return after
    return this.#firstAfterSkipped(local)
  }

  /** Returns when the clocks are set forward across a local time, by bisection. */
  #firstAfterSkipped (local: number): number {
    let before = local - largestOffset
    let after = local + largestOffset
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (this.at(middle) < local) before = middle
      else after = middle
    }
    return after
  }

  /** Returns by how much the local time differs from UTC, in milliseconds. */
  #offsetAt (time: number): number {
    const second = Math.floor(time / 1000) * 1000
    const parts = this.#format.formatToParts(second)
    const localSecond = Date.UTC(
      numberIn(parts, 'year'),
      numberIn(parts, 'month') - 1,
      numberIn(parts, 'day'),
      numberIn(parts, 'hour'),
      numberIn(parts, 'minute'),
      numberIn(parts, 'second')
    )
    return localSecond - second
  }
}

function numberIn (
  parts: readonly Intl.DateTimeFormatPart[],
  type: Intl.DateTimeFormatPartTypes
): number {
  const part = parts.find((each) => each.type === type)
  return Number(required(part, `the ${type} of a local time`).value)
}
