import { OptionError } from '../errors.js'
import { assertTimeZone } from '../limit/local-time.js'
import { longestOwnWindow, shortestOwnWindow } from '../limit/limit-kinds.js'
import { assertTimeOfDay } from '../limit/window-start.js'
import {
  assertFunction,
  assertOptions,
  checkThat,
  entriesOf,
  isNatural,
  isObject,
  isPlain,
  oneOf,
  type Checks
} from '../option-checks.js'
import { costRule, formatCost, rangeOf } from '../permit/cost.js'
import { assertStore } from '../store/store-functions.js'
import { defaultQuota } from '../subject/mark.js'
import { assertOperations } from '../subject/operation.js'
import { assertCombination } from './definition-rules.js'
import type { CheckedDefinition, Wait } from './options.js'

const assertQuotaName = checkThat(
  'must have names of at most 32 characters from a-z, 0-9 and "-" that start with a letter and ' +
  `are not "${defaultQuota}"`,
  (name) =>
    typeof name === 'string' && name !== defaultQuota && /^[a-z][a-z0-9-]{0,31}$/.test(name)
)

const reservedUnits = ['requests', 'concurrent-requests']
const assertUnit = checkThat(
  'must have a unit of at most 32 characters from a-z and "-" that starts with a letter and is ' +
  `none of ${reservedUnits.join(', ')}`,
  (unit) =>
    typeof unit === 'string' && !reservedUnits.includes(unit) && /^[a-z][a-z-]{0,31}$/.test(unit)
)

const assertLimit = checkThat(
  'must be an integer, or a function that returns that of a caller',
  (value) => typeof value === 'function' || Number.isSafeInteger(value)
)

const assertWindow = checkThat(
  `must be an integer of milliseconds from ${shortestOwnWindow} to ${longestOwnWindow}`,
  (value) => isNatural(value) && value >= shortestOwnWindow && value <= longestOwnWindow
)

const assertUnreported = checkThat(
  'must be an integer of at least 0 or a function',
  (value) => typeof value === 'function' || isNatural(value)
)

const assertCostValue = checkThat(
  `${costRule}, or a function`,
  (value) => rangeOf(value) !== null,
  formatCost
)

function assertCost (value: unknown, option: string): void {
  if (typeof value !== 'function') assertCostValue(value, option)
}

function assertCallersTimeZone (value: unknown, option: string): void {
  if (typeof value !== 'function') assertTimeZone(value, option)
}

/** In milliseconds: five minutes. */
const longestWait = 300_000

const waitRule = `must be a number of milliseconds from 1 to ${longestWait}`

function isWaitTime (value: unknown): boolean {
  return typeof value === 'number' && value >= 1 && value <= longestWait
}

const assertTimeout = checkThat(waitRule, isWaitTime)

const waitChecks: Checks<Wait> = {
  timeout: assertTimeout,
  queue: checkThat('must be an integer of at least 1', (value) => isNatural(value) && value >= 1)
}

const assertWaitNumber = checkThat(`${waitRule}, or { timeout, queue }`, isWaitTime)

function assertWait (value: unknown, option: string): void {
  if (!isObject(value)) return assertWaitNumber(value, option)
  assertOptions<Wait>(value, waitChecks, `${option}.`)
  // An option that is not set passes the checks of options, and this one is required.
  assertTimeout(value.timeout, `${option}.timeout`)
}

/** Checks for the options that the plugin and each quota have in common. */
export const checksOfEachQuota = {
  operations: assertOperations,
  store: assertStore,
  authentication: assertFunction,
  mode: oneOf('enforce', 'shadow')
}

/** Checks for the options of a definition. */
export const definitionChecks: Checks<CheckedDefinition> = {
  ...checksOfEachQuota,
  perMinute: assertAmount,
  perHour: assertAmount,
  perDay: assertAmount,
  perWeek: assertAmount,
  perMonth: assertAmount,
  limit: assertAmount,
  window: assertWindow,
  concurrent: assertLimit,
  cost: assertCost,
  unreported: assertUnreported,
  fromUsage: assertFunction,
  timeZone: assertCallersTimeZone,
  // Which days there are depends on the period.
  startsOn: () => {},
  startsAt: assertTimeOfDay,
  rateLimitHeaders: checkThat('must be false', (value) => value === false),
  wait: assertWait
}

/** Throws an `OptionError` unless the value is the definitions of quotas by name. */
export function assertQuotas (quotas: unknown, option: string): void {
  if (!isPlain(quotas)) {
    const rule = 'must be a plain object with the definition of each quota under its name'
    throw new OptionError(option, rule, quotas)
  }
  for (const [name, definition] of entriesOf(quotas)) {
    assertQuotaName(name, option)
    assertOptions<CheckedDefinition>(definition, definitionChecks, `${option}.${name}.`)
    assertCombination(definition, `${option}.${name}`)
  }
}

function assertAmount (value: unknown, option: string): void {
  if (!isObject(value)) return assertLimit(value, option)
  const [entry, ...others] = entriesOf(value)
  if (entry === undefined || others.length > 0) {
    const rule = 'must have one unit, such as { tokens: 20000 }'
    const units = Object.keys(value).join(' and ')
    throw new OptionError(option, rule, value, () => units || 'no unit')
  }
  const [unit, limit] = entry
  assertUnit(unit, option)
  assertLimit(limit, `${option}.${unit}`)
}
