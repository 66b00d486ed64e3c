import { hasFunction, OptionError, shownType } from '../errors.js'

/**
 * Keeps the counters of a quota (docs/rules.md, "Store"). Only `acquire` is required; named quotas need `quota`, requests in flight `enter`, and
 * `quotaStanding` needs `peek`. Each function can return a value or a promise. If `acquire` returns a value, the request takes no extra turn of the
 * event loop. If it throws or rejects, the request is answered with 503, so no request is admitted without being counted.
 */
export interface QuotaStore {
  /**
   * Runs the acquire step (docs/rules.md, "Counter and window"): admits if the count is below the limit, and then adds the cost.
   *
   * @param callerKey The caller's digest, as returned by `callerKey`. A store never gets an identity.
   * @param limit The effective limit, an integer of at least 1. `Number.MAX_SAFE_INTEGER` admits always.
   * @param cost What to add, an integer of at least 0. Default 1. A cost of 0 asks and counts nothing. A count does not grow beyond
   *   `Number.MAX_SAFE_INTEGER`.
   */
  acquire (callerKey: string, limit: number, cost?: number): Acquisition | Promise<Acquisition>
  /**
   * Returns the store of a named quota, with counters, cap, overflow counter and sweeps of its own: the same object for the same name.
   *
   * @param name The name of the quota.
   * @param window The length of its window, in milliseconds.
   */
  quota? (name: string, window: number): QuotaStore
  /**
   * Takes a place for a request in flight, if fewer than `limit` are taken by the caller.
   *
   * @param limit The effective limit, an integer. 0 only asks and takes no place.
   */
  enter? (callerKey: string, limit: number): Entry | Promise<Entry>
  /**
   * Returns the state of the counter that `acquire` would use for the caller now, after a sweep if one is due. Does not change the store:
   * it counts nothing, and neither updates `lastSeen` nor runs a sweep.
   *
   * @returns The count; null if the next request would open a new window.
   */
  peek? (callerKey: string): QuotaCount | null | Promise<QuotaCount | null>
  /**
   * Removes the caller's own counter. The next request of the caller opens a new window. Does nothing if the caller has no counter of its
   * own: the overflow counter keeps its count. Does not run a sweep.
   */
  forget? (callerKey: string): void | Promise<void>
  /** Removes all counters of every quota, including the overflow counters, and resets the number of sweeps. Intended for tests. */
  clearCounters? (): void | Promise<void>
  /** Returns the number of tracked callers and the number of sweeps. */
  inspect? (): QuotaStoreState | Promise<QuotaStoreState>
}

/** The result of `acquire`. */
export interface Acquisition {
  /** Whether the count was below the limit and the cost was added. */
  admitted: boolean
  /** What was admitted in the current window, this cost included if it was added. */
  count: number
  /** Milliseconds until the current window ends; more than 0. */
  windowRemaining: number
  /** Whether the shared overflow counter was used because the caller cap is reached. */
  overflow: boolean
}

/** The state of a caller's counter, as returned by `peek`. */
export interface QuotaCount {
  /** What was admitted in the current window. */
  count: number
  /** Milliseconds until the current window ends; more than 0. */
  windowRemaining: number
  /** Whether this is the shared overflow counter, which is used when the caller cap is reached. */
  overflow: boolean
}

/** The result of `enter`. */
export interface Entry {
  /** Whether a place was taken. */
  admitted: boolean
  /** The caller's requests in flight now, this one included if it was admitted. */
  count: number
  /** Gives the place back. Must be called once. Present if the request was admitted. */
  leave? (): void | Promise<void>
}

/** The state of a store, as returned by `inspect`. */
export interface QuotaStoreState {
  /** The number of callers that have a counter of their own. */
  trackedCallers: number
  /** The number of sweeps since the store was created or last cleared. */
  sweeps: number
}

/** The default caller cap: how many callers can have a counter of their own (docs/rules.md, "Caller cap and overflow counter"). */
export const defaultMaxTrackedCallers = 10_000

// The capacity of a JavaScript `Map`.
const largestMaxTrackedCallers = 2 ** 24

/** Throws an `OptionError` unless the value is a usable caller cap. */
export function assertMaxTrackedCallers (value: unknown, option: string): asserts value is number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > largestMaxTrackedCallers) {
    throw new OptionError(option, `must be an integer from 1 to ${largestMaxTrackedCallers}`, value)
  }
}

/** Throws an `OptionError` with the name of the option or decorator unless the value has the functions. */
export function assertStore<Needed extends keyof QuotaStore = 'acquire'> (value: unknown, name: string, ...needed: readonly Needed[]): asserts value is QuotaStore & Required<Pick<QuotaStore, Needed>> {
  for (const storeFunction of ['acquire', ...needed]) {
    if (!hasFunction(value, storeFunction)) throw new OptionError(name, `must be a store with a function ${storeFunction}`, value, shownType)
  }
}

// Stores of a host can be written in JavaScript, so the compiler has not checked their results.
type Unchecked<Result> = { readonly [Field in keyof Result]?: unknown } | null | undefined

/** Throws unless the value is a usable result of `acquire`, so that no other value admits a request. */
export function assertAcquisition (value: Unchecked<Acquisition>): asserts value is Acquisition {
  if (typeof value?.admitted !== 'boolean' || !isCount(value.count, value.windowRemaining, value.overflow)) throw invalidResult('acquire')
}

/** Throws unless the value is a usable result of `peek`. */
export function assertPeeked (value: Unchecked<QuotaCount>): asserts value is QuotaCount | null {
  if (value !== null && !isCount(value?.count, value?.windowRemaining, value?.overflow)) throw invalidResult('peek')
}

/** Throws unless the value is a usable result of `enter`. */
export function assertEntry (value: Unchecked<Entry>): asserts value is Entry {
  const isUsable = typeof value?.admitted === 'boolean' && isNatural(value.count) && (!value.admitted || typeof value.leave === 'function')
  if (!isUsable) throw invalidResult('enter')
}

function isCount (count: unknown, windowRemaining: unknown, overflow: unknown): boolean {
  return isNatural(count) && typeof windowRemaining === 'number' && windowRemaining > 0 && windowRemaining <= Number.MAX_SAFE_INTEGER && typeof overflow === 'boolean'
}

function isNatural (value: unknown): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function invalidResult (storeFunction: string): TypeError {
  return new TypeError(`the quota store returned an invalid result from ${storeFunction}`)
}
