import { OptionError } from '../errors.js'
import { hasFunction } from '../has-function.js'
import { shown } from '../shown.js'

/**
 * Keeps the quota counters (docs/rules.md, "Store").
 *
 * The quota calls `acquire` once for each protected request that has a caller. Each function can return a value or a promise. If
 * `acquire` returns a value, the request takes no extra turn of the event loop. If it throws or rejects, the request is answered
 * with 503, so no request is admitted without being counted.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore, type QuotaStore } from 'fastify-llm-quota'
 *
 * // Wraps a store and reports each call of acquire.
 * function observed (store: QuotaStore, onAcquire: () => void): QuotaStore {
 *   return {
 *     acquire (callerKey, limit) {
 *       onAcquire()
 *       return store.acquire(callerKey, limit)
 *     },
 *     peek: (callerKey) => store.peek(callerKey),
 *     forget: (callerKey) => store.forget(callerKey),
 *     clearCounters: () => store.clearCounters(),
 *     inspect: () => store.inspect()
 *   }
 * }
 *
 * const store = observed(new MemoryQuotaStore(), () => { console.log('called') })
 * await store.acquire('a digest', 10) // called
 * ```
 */
export interface QuotaStore {
  /**
   * Runs the acquire step (docs/rules.md, "Counter and window") for one request of a caller.
   *
   * @param callerKey The caller's digest, as returned by `callerKey`. A store never gets an identity.
   * @param limit The effective limit, an integer of at least 1.
   */
  acquire (callerKey: string, limit: number): Acquisition | Promise<Acquisition>
  /**
   * Returns the state of the counter that `acquire` would use for the caller now, after a sweep if one is due. That is the caller's
   * own counter or, if the caller has none and the caller cap is reached, the overflow counter. Does not change the state of the
   * store: it does not count a request, update `lastSeen` or run a sweep.
   *
   * @param callerKey The caller's digest.
   * @returns The count; null if the next request would open a new window, because the caller would get a new counter or because
   * the window of its counter is over.
   */
  peek (callerKey: string): QuotaCount | null | Promise<QuotaCount | null>
  /**
   * Removes the caller's own counter, which makes room for another caller. The next request of the caller opens a new window. Does
   * nothing if the caller has no counter of its own: the overflow counter keeps its count. Does not run a sweep.
   *
   * @param callerKey The caller's digest.
   */
  forget (callerKey: string): void | Promise<void>
  /** Removes all counters, including the overflow counter, and resets the number of sweeps. Intended for tests. */
  clearCounters (): void | Promise<void>
  /** Returns the number of tracked callers and the number of sweeps. */
  inspect (): QuotaStoreState | Promise<QuotaStoreState>
}

/**
 * The result of `acquire` for one request.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore, type Acquisition } from 'fastify-llm-quota'
 *
 * const acquisition: Acquisition = new MemoryQuotaStore().acquire('a digest', 10)
 * if (!acquisition.admitted) console.log(`try again in ${Math.ceil(acquisition.windowRemaining / 1000)} seconds`)
 * ```
 */
export interface Acquisition {
  /** Whether the request was admitted and counted. */
  admitted: boolean
  /** Requests admitted in the current window, including this one if it was admitted. */
  count: number
  /** Milliseconds until the current window ends; more than 0. */
  windowRemaining: number
  /** Whether the shared overflow counter was used because the caller cap is reached. */
  overflow: boolean
}

/**
 * The state of a caller's counter, as returned by `peek`.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore, type QuotaCount } from 'fastify-llm-quota'
 *
 * const store = new MemoryQuotaStore()
 * store.acquire('a digest', 10)
 * const standing: QuotaCount | null = store.peek('a digest')
 * console.log(standing?.count, store.peek('another digest')) // 1 null
 * ```
 */
export interface QuotaCount {
  /** Requests admitted in the current window. */
  count: number
  /** Milliseconds until the current window ends; more than 0. */
  windowRemaining: number
  /** Whether this is the shared overflow counter, which is used when the caller cap is reached. */
  overflow: boolean
}

/**
 * The state of a store, as returned by `inspect`.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore, type QuotaStoreState } from 'fastify-llm-quota'
 *
 * const store = new MemoryQuotaStore()
 * store.acquire('a digest', 10)
 * const state: QuotaStoreState = store.inspect()
 * console.log(state.trackedCallers) // 1
 * ```
 */
export interface QuotaStoreState {
  /** The number of callers that have a counter of their own. */
  trackedCallers: number
  /** The number of sweeps since the store was created or last cleared. */
  sweeps: number
}

const storeFunctions: readonly (keyof QuotaStore)[] = ['acquire', 'peek', 'forget', 'clearCounters', 'inspect']

/** Throws an `OptionError` with the name of the option or decorator unless the value has every function of a store. */
export function assertStore (name: string, value: unknown): asserts value is QuotaStore {
  for (const storeFunction of storeFunctions) {
    if (!hasFunction(value, storeFunction)) throw new OptionError(name, `must be a store with a function ${storeFunction}`, shown(value))
  }
}

// Third-party stores can be written in JavaScript, so the compiler has not checked their results.
type Unchecked<Result> = { readonly [Field in keyof Result]?: unknown } | null | undefined

/** Throws unless the value is a usable result of `acquire`, so that no other value admits a request. */
export function assertAcquisition (value: Unchecked<Acquisition>): asserts value is Acquisition {
  if (value == null) throw invalidResult('acquire')
  const { admitted, count, windowRemaining } = value
  if (typeof admitted !== 'boolean' || !isCount(count, windowRemaining)) throw invalidResult('acquire')
}

/** Throws unless the value is a usable result of `peek`. */
export function assertPeeked (value: Unchecked<QuotaCount>): asserts value is QuotaCount | null {
  if (value !== null && !isCount(value?.count, value?.windowRemaining)) throw invalidResult('peek')
}

function isCount (count: unknown, windowRemaining: unknown): boolean {
  return typeof count === 'number' && Number.isSafeInteger(count) && count >= 0 &&
    typeof windowRemaining === 'number' && windowRemaining > 0 && windowRemaining <= Number.MAX_SAFE_INTEGER
}

function invalidResult (storeFunction: string): TypeError {
  return new TypeError(`the quota store returned an invalid result from ${storeFunction}`)
}
