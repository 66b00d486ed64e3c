import type { Caller } from '../caller/request-caller.js'
import { isCalendarPeriod, longestInTimeZone, type CalendarPeriod } from '../limit/calendar.js'
import { Calendars } from '../limit/calendars.js'
import { limitKinds, type LimitName } from '../limit/limit-kinds.js'
import { defaultStarts, sinceMidnight } from '../limit/window-start.js'
import type { QuotaSettings } from '../permit/quota.js'
import { required } from '../required.js'
import { wallClock } from '../wall-clock.js'
import type { CheckedDefinition, StartsOn, TimeZone } from './options.js'

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
  const window = required(definition.window ?? length, 'the length of a window')
  const counters = `${name}.${unit}.${period ?? window}`
  if (isCalendarPeriod(period) && isOfTimeZone(period, definition)) {
    return {
      counters: `${counters}.${partsOfName(definition).join('.')}`,
      period,
      window: null,
      longestWindow: longestCalendarWindow(window, definition),
      windowNow: readerOfWindows(period, definition)
    }
  }
  return { counters, period, window, longestWindow: window, windowNow: null }
}

/** Whether windows are those of a time zone, and do not open with the first request of a caller. */
function isOfTimeZone (
  period: CalendarPeriod,
  { timeZone, startsOn, startsAt }: CheckedDefinition
): boolean {
  const isDefined = timeZone !== undefined || startsOn !== undefined || startsAt !== undefined
  return isDefined || period === 'month'
}

const defaultTimeZone = 'UTC'

/** Returns what distinguishes the windows of a time zone in the name of the counters. */
function partsOfName ({
  timeZone = defaultTimeZone,
  startsOn,
  startsAt
}: CheckedDefinition): (string | number)[] {
  const parts: (string | number)[] = [typeof timeZone === 'function' ? 'zone' : timeZone]
  if (startsAt !== undefined) parts.push(startsAt)
  if (startsOn !== undefined) parts.push(typeof startsOn === 'function' ? 'start' : startsOn)
  return parts
}

/**
 * Returns how long a window can stay open, in milliseconds. Where a function of the host says when
 * windows start, that can become later while one is open, and the next one then opens up to the
 * length of a window after this one has ended.
 */
function longestCalendarWindow (
  length: number,
  { timeZone, startsOn }: CheckedDefinition
): number {
  const longest = longestInTimeZone(length)
  const canChange = typeof timeZone === 'function' || typeof startsOn === 'function'
  return canChange ? 2 * longest : longest
}

function readerOfWindows (
  period: CalendarPeriod,
  {
    timeZone = defaultTimeZone,
    startsOn = defaultStarts[period],
    startsAt = '00:00'
  }: CheckedDefinition
): NonNullable<QuotaSettings['windowNow']> {
  const calendars = new Calendars(period, sinceMidnight(startsAt))
  return (caller) => {
    const calendar = calendars.of(valueFor(caller, timeZone), valueFor(caller, startsOn))
    return calendar.windowOf(wallClock())
  }
}

/** Returns what an option is for a caller. Throws if the host's function does. */
function valueFor (caller: Caller, option: TimeZone | StartsOn | undefined): unknown {
  return typeof option === 'function' ? option(caller.authentication) : option
}
