// What is checked of the results of a store. Stores of a host can be written in JavaScript, so the
// compiler has not checked them. Most checks stand without calls of `isNatural`, as in
// argument-checks.ts.
import { formatType } from '../errors.js'
import { isNatural } from '../option-checks.js'
import { isPromise, type Eventual } from '../promises.js'
import type { Acquisition, Acquisitions, Demand, QuotaCount, QuotaStore } from './store.js'

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
