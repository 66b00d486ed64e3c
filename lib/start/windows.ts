import type { Caller } from '../caller/request-caller.js'
import { Calendar, Calendars, isCalendarPeriod, type CalendarPeriod } from '../limit/calendar.js'
import { limitKinds, longestInTimeZone, type LimitName } from '../limit/limit.js'
import type { QuotaSettings } from '../permit/quota.js'
import { required } from '../required.js'
import { wallClock } from '../wall-clock.js'
import type { CheckedDefinition, TimeZone } from './options.js'

/**
 * The windows of a quota, and its counters, which are named after them: a quota whose unit or
 * window changes starts anew.
 */
type Windows = Pick<
  QuotaSettings,
  'counters' | 'period' | 'window' | 'longestWindow' | 'windowNow'
>

/** Returns the windows of a quota (docs/rules.md, "Several quotas"). */
export function windowsOf (
  name: string,
  unit: string,
  limitName: LimitName,
  definition: CheckedDefinition
): Windows {
  const { period, window: length } = limitKinds[limitName]
  if (limitName === 'concurrent') {
    const counters = `${name}.concurrent`
    return { counters, period, window: null, longestWindow: null, windowNow: null }
  }
  const timeZone = definition.timeZone ?? (period === 'month' ? 'UTC' : undefined)
  if (timeZone !== undefined && isCalendarPeriod(period)) {
    const zone = typeof timeZone === 'string' ? timeZone : 'zone'
    return {
      counters: `${name}.${unit}.${period}.${zone}`,
      period,
      window: null,
      longestWindow: longestInTimeZone(required(length, 'the length of a window')),
      windowNow: readerOfWindows(timeZone, period)
    }
  }
  const window = required(definition.window ?? length, 'the length of a window')
  const counters = `${name}.${unit}.${period ?? window}`
  return { counters, period, window, longestWindow: window, windowNow: null }
}

function readerOfWindows (
  timeZone: TimeZone,
  period: CalendarPeriod
): NonNullable<QuotaSettings['windowNow']> {
  const calendarOf = readerOfCalendars(timeZone, period)
  return (caller) => calendarOf(caller).windowOf(wallClock())
}

function readerOfCalendars (
  timeZone: TimeZone,
  period: CalendarPeriod
): (caller: Caller) => Calendar {
  if (typeof timeZone === 'string') {
    const calendar = new Calendar(period, timeZone)
    return () => calendar
  }
  const calendars = new Calendars(period)
  return ({ authentication }) => calendars.of(timeZone(authentication))
}
