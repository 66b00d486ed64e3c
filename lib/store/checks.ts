// What a store checks of its demands, and what is checked of its results. The checks of each
// request do not call `isNatural`, which would be a tenth of the calls of a decision in memory.
import { format } from '../errors.js'
import { checkThat, isNatural, withFunctions } from '../option-checks.js'
import type { Acquisition, Acquisitions, Demand, QuotaCount, QuotaStore } from './store.js'

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
 * Asks a store. Rejects unless its result is usable, so that no other value admits a request.
 */
export async function acquireFrom (
  store: QuotaStore,
  demands: readonly Demand[]
): Promise<Acquisitions> {
  const acquisitions: unknown = await store.acquire(demands)
  assertAcquisitions(acquisitions, demands)
  return acquisitions
}

/** Throws unless the value is a usable result of `acquire`. */
export function assertAcquisitions (
  value: unknown,
  demands: readonly Demand[]
): asserts value is Acquisitions {
  if (!Array.isArray(value) || value.length !== demands.length) throw unusable('acquire')
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
    const isValid =
      acquisition === null
        ? isRejected
        : isCount(acquisition, demand) && isDecision(acquisition, demand, isAdmitted)
    if (!isValid) throw unusable('acquire')
  }
}

/** @param isAdmitted Whether all demands of the request have room. */
function isDecision (
  { admitted, granted, isRemembered }: Checkable<Acquisition>,
  { least, most }: Demand,
  isAdmitted: boolean
): boolean {
  if (typeof admitted !== 'boolean') return false
  if (isRemembered !== undefined && (isRemembered !== true || admitted)) return false
  if (!isAdmitted) return granted === 0
  if (typeof granted !== 'number' || !Number.isSafeInteger(granted)) return false
  return granted >= least && granted <= most
}

/** Throws unless the value is a usable result of `peek`. */
export function assertPeeked (
  value: Unchecked<QuotaCount>,
  demand: Demand
): asserts value is QuotaCount | null {
  const isValid = value === null ? demand.window !== null : isCount(value, demand)
  if (!isValid) throw unusable('peek')
}

function isCount (
  value: Unchecked<QuotaCount>,
  { window, end }: Demand
): value is Checkable<QuotaCount> {
  if (value == null || typeof value.overflow !== 'boolean') return false
  const { count, held } = value
  if (typeof count !== 'number' || !Number.isSafeInteger(count)) return false
  if (typeof held !== 'number' || !Number.isSafeInteger(held)) return false
  if (held < 0 || held > count) return false
  if (end !== null) return isNatural(value.end)
  if (value.end !== undefined) return false
  if (window === null) return value.windowRemaining === null
  return (
    typeof value.windowRemaining === 'number' &&
    value.windowRemaining > 0 &&
    value.windowRemaining <= Number.MAX_SAFE_INTEGER
  )
}

function unusable (from: 'acquire' | 'peek'): TypeError {
  return new TypeError(`the quota store returned an invalid result from ${from}`)
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
  const { counters, callerKey, limit, least, most, isEstimate, window, start, end } = demand
  if (typeof counters !== 'string') rejectDemand('counters', 'a string', counters)
  if (typeof callerKey !== 'string') rejectDemand('callerKey', 'a string', callerKey)
  if (!Number.isSafeInteger(limit) || limit < 1) {
    rejectDemand('limit', 'an integer of at least 1', limit)
  }
  if (!Number.isSafeInteger(most) || most < 0) {
    rejectDemand('most', 'an integer of at least 0', most)
  }
  if (!Number.isSafeInteger(least) || least < 0 || least > most) {
    rejectDemand('least', 'an integer from 0 to most', least)
  }
  if (typeof isEstimate !== 'boolean') rejectDemand('isEstimate', 'true or false', isEstimate)
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

/** Throws a `TypeError` unless the value is an amount that an acquisition can be settled with. */
export function assertUsed (used: unknown): asserts used is number {
  if (!isNatural(used)) {
    throw new TypeError(
      `what an acquisition is settled with must be an integer of at least 0; it got ${format(used)}`
    )
  }
}

/** Throws the `TypeError` for an acquisition that the store did not return. */
export function rejectForeignAcquisition (): never {
  throw new TypeError(
    'a store settles only the very object that its function acquire returned, and not a copy of ' +
      'it or the object of another store'
  )
}

function rejectDemand (field: keyof Demand, rule: string, value: unknown): never {
  throw new TypeError(`the field ${field} of a demand must be ${rule}; it got ${format(value)}`)
}
