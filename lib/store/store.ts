import { OptionError, hasFunction, shown } from './errors.js'

/**
 * Where the quota counters are kept (specification, sections 2, 3 and 8).
 *
 * A store is asked once for each protected request that has a caller. It may answer at once or with a promise; when it
 * answers at once, the request takes no extra turn of the event loop. A store that throws or rejects makes the request
 * be answered 503: nothing is admitted unmetered.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore, type QuotaStore } from 'fastify-llm-quota'
 *
 * // Another store, and how often it is asked.
 * function counted (store: QuotaStore, asked: () => void): QuotaStore {
 *   return {
 *     acquire (callerKey, limit) {
 *       asked()
 *       return store.acquire(callerKey, limit)
 *     },
 *     clearCounters: () => store.clearCounters(),
 *     inspect: () => store.inspect()
 *   }
 * }
 *
 * const store = counted(new MemoryQuotaStore(), () => { console.log('asked') })
 * await store.acquire('a digest', 10) // asked
 * ```
 */
export interface QuotaStore {
  /**
   * Runs the acquire step of section 3 for one request of one caller.
   *
   * @param callerKey The caller's digest, as `callerKey` makes it; a store sees no identity.
   * @param limit The effective limit, an integer of at least 1.
   */
  acquire (callerKey: string, limit: number): Acquisition | Promise<Acquisition>
  /** Forgets all counters, the overflow counter and the number of sweeps; for isolating tests. */
  clearCounters (): void | Promise<void>
  /** How many callers have a counter of their own, and how many sweeps there have been. */
  inspect (): QuotaStoreState | Promise<QuotaStoreState>
}

/**
 * What a store answers to one request.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore, type Acquisition } from 'fastify-llm-quota'
 *
 * const acquisition: Acquisition = new MemoryQuotaStore().acquire('a digest', 10)
 * if (!acquisition.admitted) console.log(`again in ${Math.ceil(acquisition.windowRemaining / 1000)} seconds`)
 * ```
 */
export interface Acquisition {
  /** Whether the request was admitted, and so counted. */
  admitted: boolean
  /** Requests admitted in the current window, this one included when it was admitted. */
  count: number
  /** Milliseconds until the current window ends; more than 0. */
  windowRemaining: number
  /** Whether the shared overflow counter answered, because as many callers are tracked as may be. */
  overflow: boolean
}

/**
 * The bookkeeping of a store.
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
  /** Callers that have a counter of their own. */
  trackedCallers: number
  /** Cleanup sweeps since the store was made or last cleared. */
  sweeps: number
}

/** Throws, naming the option or decorator, unless it is a store. */
export function assertStore (name: string, value: unknown): asserts value is QuotaStore {
  if (!hasFunction(value, 'acquire')) throw new OptionError(name, 'must be a store with a function acquire', shown(value))
}
