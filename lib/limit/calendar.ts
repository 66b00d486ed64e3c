import { day, hour, type QuotaPeriod } from './limit-kinds.js'
import type { LocalTime } from './local-time.js'

/** By how much the clocks of a time zone are set back at most, in milliseconds. */
const longestChange = 3 * hour

/** What a calendar divides the time into. */
export type CalendarPeriod = 'day' | 'week' | 'month'

/** Whether the windows of a quota can be those of a time zone. */
export function isCalendarPeriod (period: QuotaPeriod): period is CalendarPeriod {
  return period === 'day' || period === 'week' || period === 'month'
}

/**
 * Returns the length of the longest day, week or month of a time zone, in milliseconds.
 *
 * @param length How long it is if the clocks are not changed.
 */
export function longestInTimeZone (length: number): number {
  return length + longestChange
}

/** A window of a calendar, in milliseconds since the epoch. */
export class CalendarWindow {
  readonly #calendar: Calendar

  constructor (
    calendar: Calendar,
    readonly start: number,
    /** When the next one starts. */
    readonly end: number
  ) {
    this.#calendar = calendar
  }

  /**
   * Returns when a counter opens its next window: when the first window of this calendar starts
   * that does so when the open one has ended or later. That is not the end of this window if the
   * counter opened its window by another calendar, because the time zone or the start of the caller
   * has changed, or if the clocks of two processes differ.
   *
   * @param end When the open window of the counter ends.
   */
  startAfter (end: number): number {
    if (end <= this.end) return this.end
    const window = this.#calendar.windowOf(end)
    return window.start === end ? end : window.end
  }
}

/** When the windows of a calendar start. */
interface CalendarStart {
  readonly period: CalendarPeriod
  /** Of a week, the days since Monday; of a month, the day of the month, from 1 to 31. */
  readonly startDay: number
  /** Milliseconds since midnight. */
  readonly startsAt: number
}

/**
 * The days, weeks or months of a time zone (docs/rules.md, "Time zones"). Each window ends when the
 * next one starts, and depends on nothing but the calendar, so that processes with different clocks
 * agree on all.
 *
 * Dates are the local times at which they begin.
 */
export class Calendar {
  readonly #start: CalendarStart
  readonly #localTime: LocalTime
  #latest: CalendarWindow | undefined

  constructor (start: CalendarStart, localTime: LocalTime) {
    this.#start = start
    this.#localTime = localTime
  }

  /**
   * Returns the window of a time.
   *
   * @param time Milliseconds since the epoch.
   */
  windowOf (time: number): CalendarWindow {
    const latest = this.#latest
    if (latest !== undefined && time >= latest.start && time < latest.end) return latest
    const window = this.#determine(time)
    this.#latest = window
    return window
  }

  #determine (time: number): CalendarWindow {
    const { startsAt } = this.#start
    const sinceStartOfDay = this.#localTime.at(time) - startsAt
    let date = this.#latestStart(Math.floor(sinceStartOfDay / day) * day)
    let start = this.#localTime.timeOf(date + startsAt)
    let next = this.#startAfter(date)
    let end = this.#localTime.timeOf(next + startsAt)
    // Clocks that were set back show an earlier date again although the next window has started.
    while (end <= time) {
      date = next
      start = end
      next = this.#startAfter(date)
      end = this.#localTime.timeOf(next + startsAt)
    }
    return new CalendarWindow(this, start, end)
  }

  /** Returns the latest date, not after the given one, at which a window starts. */
  #latestStart (date: number): number {
    const { period, startDay } = this.#start
    if (period === 'day') return date
    const utc = new Date(date)
    if (period === 'week') {
      const sinceMonday = (utc.getUTCDay() + 6) % 7
      return date - ((sinceMonday - startDay + 7) % 7) * day
    }
    const start = this.#startInMonth(utc.getUTCFullYear(), utc.getUTCMonth())
    if (start <= date) return start
    return this.#startInMonth(utc.getUTCFullYear(), utc.getUTCMonth() - 1)
  }

  /** Returns the date at which the window after the one of a date starts. */
  #startAfter (date: number): number {
    const { period } = this.#start
    if (period === 'day') return date + day
    if (period === 'week') return date + 7 * day
    const utc = new Date(date)
    return this.#startInMonth(utc.getUTCFullYear(), utc.getUTCMonth() + 1)
  }

  /** @param month From 0. It can be -1 or 12, of the year before or after. */
  #startInMonth (year: number, month: number): number {
    const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
    return Date.UTC(year, month, Math.min(this.#start.startDay, lastDay))
  }
}
