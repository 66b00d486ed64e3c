import { insuredStoreChanges, type InsuredQuotaStoreChange } from '../../channels.js'
import { OverloadError } from '../../errors.js'
import {
  assertFunction,
  assertMilliseconds,
  assertOptions,
  withFunctions
} from '../../option-checks.js'
import { nodeTimers } from '../../time-limit.js'
import { assertCallerKey, assertDemand, assertDemands } from '../argument-checks.js'
import { largestMaxTrackedCallers, MemoryQuotaStore } from '../memory/memory-store.js'
import { assertStore, hideMissingFunctions } from '../store-functions.js'
import type {
  Acquisitions,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState,
  Settled
} from '../store.js'
import { CircuitBreaker } from './circuit-breaker.js'
import type {
  InsuredQuotaStoreOptions,
  InsuredQuotaStoreState,
  PrimaryQuotaStore
} from './options.js'
import { isRemembered, readReceipt, WatchedStore } from './watched-store.js'

/**
 * Uses a primary store, and a fallback store if the primary fails or is silent: if it has been
 * asked, and has answered nothing at all for `timeout`. A primary that answers is well, however
 * many requests wait for it: one that waits for too long fails with an `OverloadError`, and the
 * fallback is not asked, so that nobody gets a second limit from a flood of requests. Every request
 * that is admitted is counted by one of the stores. If the fallback also fails, or is silent, the
 * call fails. The store has the optional functions that both stores have.
 *
 * | state | which store decides | next state |
 * |---|---|---|
 * | used | the primary; for a call that it fails, the fallback | resting, after a failure |
 * | resting | the fallback | due, after `coolDown` |
 * | due | the primary tries one request | being tried |
 * | being tried | the fallback, on all other requests | used or resting, by the result |
 *
 * Only `acquire` changes the state, and only a decision of the primary's own server leads from a
 * trial to *used*: after a rejection from memory (`isRemembered`) or an `OverloadError`, the next
 * request tries again. Each change between *used* and *resting* is published once on the
 * diagnostics channel `fastify-llm-quota:insured-store`, and the plugin logs it.
 *
 * What a late response of a store has counted is given back. Nobody waits for that: if it fails, it
 * stays counted until its window, or its place, ends. A stall of the process's own event loop is
 * not a failure.
 *
 * A receipt that is a text of the primary stays this text, so any process can settle with it. Other
 * receipts, and all of the fallback, are objects, which only this process can settle.
 *
 * @throws {OptionError} If an option has an invalid value.
 */
export class InsuredQuotaStore implements QuotaStore {
  /** The store that is used as long as it works. */
  readonly primary: PrimaryQuotaStore
  /** The store that is used while the primary is unavailable. */
  readonly fallback: QuotaStore
  /** The number of calls of `acquire` that each store decided. */
  readonly decisions: Record<'primary' | 'fallback', number> = { primary: 0, fallback: 0 }
  readonly #primary: WatchedStore
  readonly #fallback: WatchedStore
  readonly #breaker: CircuitBreaker

  constructor (options: InsuredQuotaStoreOptions) {
    assertOptions<InsuredQuotaStoreOptions>(options, {
      primary: assertStore,
      fallback: assertStore,
      timeout: assertMilliseconds,
      coolDown: assertMilliseconds,
      clock: assertFunction,
      timers: withFunctions('timers', 'setTimeout', 'clearTimeout')
    })
    // An option can be undefined, but the primary is required.
    assertStore(options.primary, 'primary')
    const {
      primary,
      timeout = 100,
      coolDown = 1000,
      clock = () => performance.now(),
      timers = nodeTimers
    } = options
    this.primary = primary
    this.fallback = options.fallback ?? memoryBeside(primary, clock)
    this.#primary = new WatchedStore('primary', this.primary, timeout, timers)
    this.#fallback = new WatchedStore('fallback', this.fallback, timeout, timers)
    this.#breaker = new CircuitBreaker({
      coolDown,
      clock,
      onChange: (isOpen, error) => {
        this.#publish(isOpen, error)
      }
    })
    hideMissingFunctions(this, [this.primary, this.fallback])
  }

  /** The store that is currently used. */
  get state (): InsuredQuotaStoreState {
    return this.#breaker.isOpen ? 'fallback' : 'primary'
  }

  async acquire (demands: readonly Demand[]): Promise<Acquisitions> {
    assertDemands(demands)
    const phase = this.#breaker.startCall()
    if (phase === undefined) return this.#acquireFrom(this.#fallback, demands)
    let acquisitions
    try {
      acquisitions = await this.#acquireFrom(this.#primary, demands)
    } catch (error) {
      if (error instanceof OverloadError) {
        this.#breaker.inconclusive(phase)
        throw error
      }
      this.#breaker.failed(phase, error)
      return this.#acquireFrom(this.#fallback, demands)
    }
    if (isRemembered(acquisitions)) this.#breaker.inconclusive(phase)
    else this.#breaker.succeeded(phase)
    return acquisitions
  }

  /**
   * Settles in the store that made the acquisition, and waits until that has settled or failed.
   * Does not change the state.
   */
  async settle? (receipt: unknown, less: Settled, once?: string): Promise<void | boolean> {
    const { store, receipt: own } = readReceipt(receipt)
    return this[store].settle?.(own, less, once)
  }

  /**
   * Reads a caller's count from the store that is currently used, or from the fallback if the
   * primary fails or is silent.
   */
  async peek? (demand: Demand): Promise<QuotaCount | null> {
    assertDemand(demand)
    return this.#read((store) => store.peek(demand))
  }

  /** Removes the caller's counter from both stores. Rejects if one of them fails. */
  async forget? (counters: string, callerKey: string): Promise<void> {
    assertCallerKey(callerKey)
    return this.#callBoth((store) => store.forget?.(counters, callerKey))
  }

  /**
   * Lists the callers of the store that is currently used, or those of the fallback if the primary
   * fails or is silent. The next pages come from the same store. Rejects if it then fails.
   */
  async list? (counters: string, cursor?: string): Promise<CallerPage> {
    if (cursor === undefined) return this.#read((store) => listFrom(store, counters))
    const [, store, own] = /^(primary|fallback):(.*)$/s.exec(cursor) ?? []
    if (store === undefined) throw new TypeError('list takes a cursor that it has returned')
    return listFrom(store === 'primary' ? this.#primary : this.#fallback, counters, own)
  }

  /** Clears both stores. Rejects if one of them fails. Does not change the state. */
  async clearCounters? (): Promise<void> {
    return this.#callBoth((store) => store.clearCounters?.())
  }

  /**
   * Inspects the store that is currently used, or the fallback if the primary fails or is silent.
   */
  async inspect? (counters: string): Promise<QuotaStoreState> {
    return this.#read((store) => store.inspect(counters))
  }

  async #acquireFrom (watched: WatchedStore, demands: readonly Demand[]): Promise<Acquisitions> {
    const acquisitions = await watched.acquire(demands)
    this.decisions[watched.name] += 1
    return acquisitions
  }

  #publish (isOpen: boolean, error: unknown): void {
    const state = isOpen ? 'fallback' : 'primary'
    const change: InsuredQuotaStoreChange = { store: this, state, error }
    insuredStoreChanges.publish(change)
  }

  async #read<Result> (question: (store: WatchedStore) => Promise<Result>): Promise<Result> {
    if (this.state === 'primary') {
      try {
        return await question(this.#primary)
      } catch {
        // The fallback is asked below.
      }
    }
    return question(this.#fallback)
  }

  // Both are called in the same turn of the event loop, so that no request comes between the two
  // calls.
  async #callBoth (call: (store: QuotaStore) => void | Promise<void>): Promise<void> {
    await Promise.all([this.primary, this.fallback].map(async (store) => call(store)))
  }
}

/** The default fallback. */
function memoryBeside (primary: PrimaryQuotaStore, clock: () => number): MemoryQuotaStore {
  const { maxTrackedCallers = Infinity } = primary
  if (maxTrackedCallers === Infinity) return new MemoryQuotaStore({ clock })
  const cap = Math.min(maxTrackedCallers, largestMaxTrackedCallers)
  return new MemoryQuotaStore({ clock, maxTrackedCallers: cap })
}

/** Lists a page. The cursor of the next one says which of the two stores has it. */
async function listFrom (
  watched: WatchedStore,
  counters: string,
  cursor?: string
): Promise<CallerPage> {
  const page = await watched.list(counters, cursor)
  return page.cursor === null ? page : { ...page, cursor: `${watched.name}:${page.cursor}` }
}
