import { OptionError } from '../errors.js'
import { isCalendarPeriod } from '../limit/calendar.js'
import { limitKinds, limitNames, type LimitName, type QuotaPeriod } from '../limit/limit-kinds.js'
import { startDayOf, startRule } from '../limit/window-start.js'
import { entriesOf, isObject } from '../option-checks.js'
import { formatCost } from '../permit/cost.js'
import type { CheckedDefinition } from './options.js'

/** Returns the option of a definition that holds its limit. */
export function limitNameOf (definition: CheckedDefinition): LimitName {
  return limitNames.find((name) => definition[name] !== undefined) ?? 'perMinute'
}

/** Throws an `OptionError` if the options of a quota do not belong together. */
export function assertCombination (definition: CheckedDefinition, option: string): void {
  const { cost, unreported, fromUsage } = definition
  assertOneLimit(definition, option)
  const limitName = limitNameOf(definition)
  const isInUnit = isObject(definition[limitName])
  if (cost !== undefined && limitName === 'concurrent') {
    const rule = 'must not be set with concurrent, since each request takes one place'
    throw new OptionError(`${option}.cost`, rule, cost)
  }
  if (isObject(cost) && !isInUnit) {
    const rule = 'must be a range only with a limit in a unit, such as { tokens: 20000 }'
    throw new OptionError(`${option}.cost`, rule, cost, formatCost)
  }
  for (const [name, value] of entriesOf({ unreported, fromUsage })) {
    if (value === undefined || isInUnit) continue
    const rule = 'must be set only with a limit in a unit, such as { tokens: 20000 }'
    throw new OptionError(`${option}.${name}`, rule, value)
  }
  assertWindowOf(limitName, definition, option)
}

/** Throws an `OptionError` if the options that define the window do not belong to the limit. */
function assertWindowOf (
  limitName: LimitName,
  { limit, window, timeZone, startsOn, startsAt }: CheckedDefinition,
  option: string
): void {
  if (limit !== undefined && window === undefined) {
    const rule = 'must be set together with window, the length of its window in milliseconds'
    throw new OptionError(`${option}.limit`, rule, limit)
  }
  if (limit === undefined && window !== undefined) {
    throw new OptionError(`${option}.window`, 'must be set only with limit', window)
  }
  assertCalendar(limitKinds[limitName].period, { timeZone, startsOn, startsAt }, option)
}

/** Throws an `OptionError` if the period has no windows of a time zone, or none that start then. */
function assertCalendar (
  period: QuotaPeriod,
  { startsOn, ...others }: Pick<CheckedDefinition, 'timeZone' | 'startsOn' | 'startsAt'>,
  option: string
): void {
  for (const [name, value] of entriesOf(others)) {
    if (value === undefined || isCalendarPeriod(period)) continue
    const rule = 'must be set only with perDay, perWeek or perMonth'
    throw new OptionError(`${option}.${name}`, rule, value)
  }
  if (startsOn === undefined) return
  if (period !== 'week' && period !== 'month') {
    const rule = 'must be set only with perWeek or perMonth'
    throw new OptionError(`${option}.startsOn`, rule, startsOn)
  }
  if (typeof startsOn !== 'function' && startDayOf(period, startsOn) === null) {
    const rule = `${startRule(period)}, or a function that returns that of a caller`
    throw new OptionError(`${option}.startsOn`, rule, startsOn)
  }
}

function assertOneLimit (definition: CheckedDefinition, option: string): void {
  const names = limitNames.filter((name) => definition[name] !== undefined)
  if (names.length > 1) throw new OptionError(option, 'must have one limit', names.join(' and '))
}
