// What a store checks of its demands, and what is checked of its results. The checks of each
// request stand without calls of `isNatural`, which were a tenth of the calls of a decision in
// memory.
import { format, formatType } from '../errors.js'
import { checkThat, isNatural, isObject, withFunctions } from '../option-checks.js'
import { isPromise, type Eventual } from '../promises.js'
import type {
  Acquisition,
  Acquisitions,
  Demand,
  QuotaCount,
  QuotaStore,
  Settled
} from './store.js'

// The capacity of a JavaScript `Map`.
const largestMaxTrackedCallers = 2 ** 24

/** Throws an `OptionError` unless the value is a usable caller cap. */
export const assertMaxTrackedCallers = checkThat(
  `must be an integer from 1 to ${largestMaxTrackedCallers}`,
  (value) =>
    isNatural(value) && value >= 1 && value <= largestMaxTrackedCallers
)

/**
 * Throws an `OptionError` with the name of the option or decorator unless the value has the
 * functions.
 */
export function assertStore<Needed extends keyof QuotaStore = 'acquire'> (
  value: unknown,
  name: string,
  ...needed: readonly Needed[]
): asserts value is QuotaStore & Required<Pick<QuotaStore, Needed>> {
  withFunctions('a store', 'acquire', ...needed)(value, name)
}

// Stores of a host can be written in JavaScript, so the compiler has not checked their results.
type Checkable<Result> = { readonly [Field in keyof Result]?: unknown }
type Unchecked<Result> = Checkable<Result> | null | undefined

/**
 * Asks a store. Throws or rejects unless its result is usable, so that no other value admits a
 * request.
 */
export function acquireFrom (
  store: QuotaStore,
  demands: readonly Demand[]
): Acquisitions | Promise<Acquisitions> {
  const acquiring: Eventual<unknown> = store.acquire(demands)
  return isPromise(acquiring) ? checkLater(acquiring, demands) : checked(acquiring, demands)
}

async function checkLater (
  acquiring: PromiseLike<unknown>,
  demands: readonly Demand[]
): Promise<Acquisitions> {
  return checked(await acquiring, demands)
}

function checked (acquisitions: unknown, demands: readonly Demand[]): Acquisitions {
  assertAcquisitions(acquisitions, demands)
  return acquisitions
}

/**
 * Throws a `TypeError` that names what is wrong unless the value is a usable result of `acquire`.
 */
export function assertAcquisitions (
  value: unknown,
  demands: readonly Demand[]
): asserts value is Acquisitions {
  if (!Array.isArray(value) || value.length !== demands.length) {
    rejectResult('acquire', `must be an array of ${demands.length}`, value)
  }
  const acquisitions: readonly Unchecked<Acquisition>[] = value
  let isAdmitted = true
  let isRejected = false
  for (const acquisition of acquisitions) {
    if (acquisition?.admitted !== true) isAdmitted = false
    if (acquisition?.admitted === false) isRejected = true
  }
  let index = 0
  for (const demand of demands) {
    const acquisition = acquisitions[index]
    index += 1
    // It was not asked, because another one has no room.
    if (acquisition === null && isRejected) continue
    assertCount(acquisition, demand, 'acquire')
    assertDecision(acquisition, demand, isAdmitted)
  }
}

/** @param isAdmitted Whether all demands of the request have room. */
function assertDecision (
  { admitted, granted, isRemembered }: Checkable<Acquisition>,
  { least, most }: Demand,
  isAdmitted: boolean
): void {
  if (typeof admitted !== 'boolean') rejectField('acquire', 'admitted', 'true or false', admitted)
  if (isRemembered !== undefined && (isRemembered !== true || admitted)) {
    rejectField('acquire', 'isRemembered', 'true for a rejected demand, or absent', isRemembered)
  }
  if (!isAdmitted) {
    if (granted !== 0) rejectField('acquire', 'granted', '0 for a rejected request', granted)
    return
  }
  const isInRange =
    typeof granted === 'number' &&
    Number.isSafeInteger(granted) &&
    granted >= least &&
    granted <= most
  if (!isInRange) {
    rejectField('acquire', 'granted', `an integer from ${least} to ${most}`, granted)
  }
}

/**
 * Throws a `TypeError` that names what is wrong unless the value is a usable result of `peek`.
 */
export function assertPeeked (
  value: Unchecked<QuotaCount>,
  demand: Demand
): asserts value is QuotaCount | null {
  if (value === null && demand.window !== null) return
  assertCount(value, demand, 'peek')
}

function assertCount (
  value: Unchecked<QuotaCount>,
  demand: Demand,
  from: From
): asserts value is Checkable<QuotaCount> {
  if (value == null) rejectResult(from, 'must be an object for each demand', value)
  const { count, held, overflow } = value
  if (typeof count !== 'number' || !Number.isSafeInteger(count) || count < 0) {
    rejectField(from, 'count', 'an integer of at least 0', count)
  }
  const isPartOfCount =
    typeof held === 'number' && Number.isSafeInteger(held) && held >= 0 && held <= count
  if (!isPartOfCount) {
    rejectField(from, 'held', 'an integer from 0 to count', held)
  }
  if (overflow !== undefined && typeof overflow !== 'boolean') {
    rejectField(from, 'overflow', 'true, false or absent', overflow)
  }
  assertWindow(value, demand, from)
}

function assertWindow (
  { windowRemaining, end }: Checkable<QuotaCount>,
  demand: Demand,
  from: From
): void {
  if (demand.end !== null) {
    if (!isNatural(end)) rejectField(from, 'end', 'milliseconds since the epoch', end)
    return
  }
  if (end !== undefined) rejectField(from, 'end', 'absent, as the demand has none', end)
  if (demand.window === null) {
    if (windowRemaining === null) return
    rejectField(from, 'windowRemaining', 'null for a concurrent request', windowRemaining)
  }
  const isTime =
    typeof windowRemaining === 'number' &&
    windowRemaining > 0 &&
    windowRemaining <= Number.MAX_SAFE_INTEGER
  if (!isTime) rejectField(from, 'windowRemaining', 'milliseconds above 0', windowRemaining)
}

type From = 'acquire' | 'peek'

function rejectField (from: From, field: keyof Acquisition, rule: string, value: unknown): never {
  rejectResult(from, `the field ${field} must be ${rule}`, value)
}

function rejectResult (from: From, rule: string, value: unknown): never {
  throw new TypeError(
    `the quota store returned an invalid result from ${from}: ${rule}; it got ${formatType(value)}`
  )
}

/** Throws a `TypeError` unless all demands are as described, and on different counters. */
export function assertDemands (demands: readonly Demand[]): void {
  for (const demand of demands) assertDemand(demand)
  // Most requests have one demand.
  if (demands.length > 1) assertDifferent(demands)
}

function assertDifferent (demands: readonly Demand[]): void {
  for (const [index, { counters }] of demands.entries()) {
    if (demands.slice(0, index).some((earlier) => earlier.counters === counters)) {
      throw new TypeError(`two demands of a request have the same counters ${format(counters)}`)
    }
  }
}

/** Throws a `TypeError` that names the field and its value unless the demand is as described. */
export function assertDemand (demand: Demand): void {
  const { counters, callerKey, limit, least, most, isEstimate, unit, reference } = demand
  const { window, start, end } = demand
  if (typeof counters !== 'string') rejectDemand('counters', 'a string', counters)
  if (typeof callerKey !== 'string') rejectDemand('callerKey', 'a string', callerKey)
  if (!Number.isSafeInteger(limit) || limit < 0) {
    rejectDemand('limit', 'an integer of at least 0', limit)
  }
  if (!Number.isSafeInteger(most) || most < 0) {
    rejectDemand('most', 'an integer of at least 0', most)
  }
  if (!Number.isSafeInteger(least) || least < 0 || least > most) {
    rejectDemand('least', 'an integer from 0 to most', least)
  }
  if (typeof isEstimate !== 'boolean') rejectDemand('isEstimate', 'true or false', isEstimate)
  if (typeof unit !== 'string') rejectDemand('unit', 'a string', unit)
  if (typeof reference !== 'string' && reference !== null) {
    rejectDemand('reference', 'a string or null', reference)
  }
  if (window === null) return assertPlace(demand)
  if (!Number.isSafeInteger(window) || window < 1) {
    rejectDemand('window', 'an integer of at least 1, or null', window)
  }
  if (start === null && end === null) return
  if (!isNatural(start)) rejectDemand('start', 'milliseconds since the epoch, as end is', start)
  if (!isNatural(end) || end <= start) {
    rejectDemand('end', 'milliseconds since the epoch, after start', end)
  }
}

/** Throws a `TypeError` unless the demand of a place is as described. */
function assertPlace ({ least, most, isEstimate, start, end }: Demand): void {
  if (least !== 1) rejectDemand('least', '1 for a concurrent request', least)
  if (most !== 1) rejectDemand('most', '1 for a concurrent request', most)
  if (!isEstimate) rejectDemand('isEstimate', 'true for a concurrent request', isEstimate)
  if (start !== null) rejectDemand('start', 'null for a concurrent request', start)
  if (end !== null) rejectDemand('end', 'null for a concurrent request', end)
}

/** Throws a `TypeError` unless the value says by how much an acquisition is lowered. */
export function assertSettled (less: unknown): asserts less is Settled {
  const { count, held }: Checkable<Settled> = isObject(less) ? less : {}
  if (!isNatural(count)) rejectSettled('count', 'an integer of at least 0', count)
  if (!isNatural(held)) rejectSettled('held', 'an integer of at least 0', held)
}

/** Throws a `TypeError` unless the value is the text of a settlement, or there is none. */
export function assertOnce (once: unknown): asserts once is string | undefined {
  if (once !== undefined && typeof once !== 'string') {
    rejectSettled('once', 'a string or undefined', once)
  }
}

const callerKeyPattern = /^[0-9a-f]{64}$/

/** Throws a `TypeError` unless the value is a digest as `callerKey` returns it. */
export function assertCallerKey (value: unknown): asserts value is string {
  if (typeof value !== 'string' || !callerKeyPattern.test(value)) {
    throw new TypeError(
      'the callerKey of a call of forget must be 64 hexadecimal digits, as callerKey() ' +
        `returns them; it got ${formatType(value)}`
    )
  }
}

function rejectSettled (field: keyof Settled | 'once', rule: string, value: unknown): never {
  throw new TypeError(`the ${field} of a settlement must be ${rule}; it got ${format(value)}`)
}

function rejectDemand (field: keyof Demand, rule: string, value: unknown): never {
  throw new TypeError(`the field ${field} of a demand must be ${rule}; it got ${format(value)}`)
}
