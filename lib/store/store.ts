import { format } from '../errors.js'
import { checkThat, isNatural, withFunctions } from '../option-checks.js'

/**
 * Keeps the counters of quotas (docs/rules.md, "Store"). Only `acquire` is required. Costs in a
 * unit other than requests, concurrent requests and quotas in two stores need `settle`;
 * `quotaStanding` needs `peek`. Each function can return a value or a promise. If `acquire` returns
 * a value, the request takes no extra turn of the event loop. If it throws or rejects, the response
 * is a 503, so no request is admitted without being counted.
 */
export interface QuotaStore {
  /**
   * Decides on all demands in one step: counts each if all of them have room, and none otherwise.
   * In both cases, each demand reaches its counter: it opens a window, sets `lastSeen` and runs a
   * sweep if one is due. No two demands have the same counters.
   *
   * @returns One acquisition for each demand, in their order; null for one that was not asked
   *   because another is known to have no room.
   */
  acquire(
    demands: readonly Demand[]
  ): readonly (Acquisition | null)[] | Promise<readonly (Acquisition | null)[]>
  /**
   * Settles an acquisition that was counted: from now on it counts `used`, if that is less than it
   * counts, and holds nothing. Changes the window that counted it, and no other. Can be called
   * again, for a later report that is lower still. What was used beyond is not settled: it is one
   * more acquisition, with the greatest limit.
   *
   * @param acquisition The very object that `acquire` returned, in which a store can keep more. If
   *   its request was rejected, there is nothing to settle.
   * @param used What the request used, an integer of at least 0; 0 for a place that is free again.
   * @returns A promise that is fulfilled when it has been applied.
   * @throws {TypeError} If the store did not return this object, or if `used` is not an integer of
   *   at least 0.
   */
  settle?(acquisition: Acquisition, used: number): void | Promise<void>
  /**
   * Returns the state of the counter that the demand would reach now, after a sweep if one is due.
   * Changes nothing: it neither updates `lastSeen` nor runs a sweep.
   *
   * @returns The count; null if the demand would open a new window, and never null for
   *   concurrent requests.
   */
  peek?(demand: Demand): QuotaCount | null | Promise<QuotaCount | null>
  /**
   * Removes the caller's own counter. The next request of the caller opens a new window. Does
   * nothing if the caller has no counter of its own: the overflow counter keeps its count, and
   * concurrent requests keep their places. Does not run a sweep.
   */
  forget?(callerKey: string, counters: string): void | Promise<void>
  /**
   * Returns a page of the callers that have a counter of their own with an open window. A caller
   * whose window stays open is on at least one page.
   *
   * @param cursor The cursor of the previous page. Default: the first page.
   */
  list?(counters: string, cursor?: string): CallerPage | Promise<CallerPage>
  /** Returns the number of tracked callers and the number of sweeps. */
  inspect?(counters: string): QuotaStoreState | Promise<QuotaStoreState>
  /**
   * Removes all counters of every quota, places and overflow counters included, and resets the
   * numbers of sweeps. Intended for tests.
   */
  clearCounters?(): void | Promise<void>
}

/**
 * What a quota asks of a store. There is room if `count + max(least, 1) <= limit`, and what is
 * granted and counted is then `min(most, limit - count)`.
 */
export interface Demand {
  /** The name of the counters: `default`, or for example `chat.tokens.day`. */
  readonly counters: string
  /** The caller's digest, as returned by `callerKey`. A store never receives an identity. */
  readonly callerKey: string
  /** The effective limit, an integer of at least 1. `Number.MAX_SAFE_INTEGER` always has room. */
  readonly limit: number
  /**
   * The least that the request can use, an integer from 0 to `most`. Above the limit, there is
   * never room.
   */
  readonly least: number
  /** The most that the request can use, an integer of at least 0. */
  readonly most: number
  /** Whether what is counted is held until it is settled. A place is always held. */
  readonly isEstimate: boolean
  /**
   * The length of the window in milliseconds, or the longest if windows differ; null for concurrent
   * requests.
   */
  readonly window: number | null
  /**
   * When the day, week or month of a time zone begins, in milliseconds since the epoch: a window
   * that ends then or earlier is over, and no other is. Null if the window opens with the first
   * request.
   */
  readonly start: number | null
  /** When that day, week or month ends, in milliseconds since the epoch; null if `start` is. */
  readonly end: number | null
}

/** The state of a caller's counter. */
export interface QuotaCount {
  /** What is counted: in the current window, or at the same time. */
  readonly count: number
  /** The part of the count that requests in progress hold. Of concurrent requests, the count. */
  readonly held: number
  /**
   * Milliseconds until the current window ends, more than 0; null for days, weeks and months of a
   * time zone, and for concurrent requests.
   */
  readonly windowRemaining: number | null
  /**
   * When the current window ends, in milliseconds since the epoch. Present if the demand has an
   * end.
   */
  readonly end?: number
  /** Whether this is the shared overflow counter, which is used when the caller cap is reached. */
  readonly overflow: boolean
}

/** The result of `acquire` for one demand. `count` and `held` include what was granted. */
export interface Acquisition extends QuotaCount {
  /** Whether the demand has room. The request is admitted if all of its demands have. */
  readonly admitted: boolean
  /** What was counted; 0 if the request was rejected. */
  readonly granted: number
  /** Present if the demand was rejected from memory, so that the server was not asked. */
  readonly isRemembered?: true
}

/** A caller with an open window, or with concurrent requests. */
export interface CallerCount extends Omit<QuotaCount, 'overflow'> {
  /** The caller's digest, as returned by `callerKey`. */
  readonly callerKey: string
}

/** A page of callers, as returned by `list`. */
export interface CallerPage {
  /** The callers of the page. */
  readonly callers: readonly CallerCount[]
  /** The cursor of the next page; null if this is the last page. */
  readonly cursor: string | null
}

/** The state of a store, as returned by `inspect`. */
export interface QuotaStoreState {
  /** The number of callers that have a counter of their own. */
  readonly trackedCallers: number
  /** The number of sweeps since the store was created or last cleared. */
  readonly sweeps: number
}

/**
 * The default caller cap: how many callers can have a counter of their own (docs/rules.md, "Caller
 * cap and overflow counter").
 */
export const defaultMaxTrackedCallers = 10_000

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

/** What a store returns for the demands of a request. */
export type Acquisitions = readonly (Acquisition | null)[]

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
  if (!isUsable(value, demands)) {
    throw new TypeError('the quota store returned an invalid result from acquire')
  }
}

function isUsable (value: unknown, demands: readonly Demand[]): boolean {
  if (!Array.isArray(value) || value.length !== demands.length) return false
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
    if (!isValid) return false
  }
  return true
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
  return isNatural(granted) && granted >= least && granted <= most
}

/** Throws unless the value is a usable result of `peek`. */
export function assertPeeked (
  value: Unchecked<QuotaCount>,
  demand: Demand
): asserts value is QuotaCount | null {
  const isValid = value === null ? demand.window !== null : isCount(value, demand)
  if (!isValid) throw new TypeError('the quota store returned an invalid result from peek')
}

function isCount (
  value: Unchecked<QuotaCount>,
  { window, end }: Demand
): value is Checkable<QuotaCount> {
  if (value == null || typeof value.overflow !== 'boolean') return false
  if (!isNatural(value.count) || !isNatural(value.held) || value.held > value.count) return false
  if (end !== null) return isNatural(value.end)
  if (value.end !== undefined) return false
  if (window === null) return true
  return (
    typeof value.windowRemaining === 'number' &&
    value.windowRemaining > 0 &&
    value.windowRemaining <= Number.MAX_SAFE_INTEGER
  )
}

/**
 * Throws a `TypeError` that names the field and its value unless all demands are as described, so
 * that no store counts others.
 */
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

/** Does the same for one demand. */
export function assertDemand (demand: Demand): void {
  const { counters, callerKey, limit, least, most, isEstimate, window, start, end } = demand
  if (typeof counters !== 'string') rejectDemand('counters', 'a string', counters)
  if (typeof callerKey !== 'string') rejectDemand('callerKey', 'a string', callerKey)
  // Not isNatural, which would be a quarter of the calls of a decision in memory.
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
    'a store settles only the very object that its function acquire returned, not a copy of it'
  )
}

function rejectDemand (field: keyof Demand, rule: string, value: unknown): never {
  throw new TypeError(`the field ${field} of a demand must be ${rule}; it got ${format(value)}`)
}
