import { checkThat } from '../option-checks.js'
import type { CalendarPeriod } from './calendar.js'

const minute = 60_000

const weekdays = [
  'monday',
  'tuesday',
  'wednesday',
  'thursday',
  'friday',
  'saturday',
  'sunday'
] as const

/**
 * On which day windows begin: the day of the week of `perWeek`, or the day of the month, from 1 to
 * 31, of `perMonth`. In a month without that day, it is the last one.
 */
export type Start = (typeof weekdays)[number] | number

/** Returns what the day on which weeks or months begin must be, for error messages. */
export function startRule (period: CalendarPeriod): string {
  if (period === 'week') return `must be one of ${weekdays.join(', ')}`
  return 'must be a day of the month, an integer from 1 to 31'
}

/** On which day windows begin if the host does not say. Every day begins a window of a day. */
export const defaultStarts = { day: undefined, week: 'monday', month: 1 } as const

/**
 * Returns the number of a `Start`: of a day of the week, the days since Monday; of a day of the
 * month, itself. Null if the period has no such day. Each day begins a window of the period `day`.
 */
export function startDayOf (period: CalendarPeriod, start: unknown): number | null {
  if (period === 'day') return 0
  if (period === 'week') {
    const index = weekdays.findIndex((weekday) => weekday === start)
    return index === -1 ? null : index
  }
  const isDayOfMonth =
    typeof start === 'number' && Number.isInteger(start) && start >= 1 && start <= 31
  return isDayOfMonth ? start : null
}

const timeOfDay = /^([01]\d|2[0-3]):([0-5]\d)$/

export const assertTimeOfDay = checkThat(
  'must be a time of day from 00:00 to 23:59, such as 06:00',
  (value) => typeof value === 'string' && timeOfDay.test(value)
)

/** Returns a time of day, such as `06:00`, as milliseconds since midnight. */
export function sinceMidnight (time: string): number {
  const [hours, minutes] = time.split(':')
  return (60 * Number(hours) + Number(minutes)) * minute
}
