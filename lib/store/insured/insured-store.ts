import { insuredStoreChanges, type InsuredQuotaStoreChange } from '../../channels.js'
import { CircuitBreaker } from '../../circuit-breaker.js'
import { format } from '../../errors.js'
import {
  assertFunction,
  assertMilliseconds,
  assertOptions,
  hasFunction,
  isNatural,
  withFunctions
} from '../../option-checks.js'
import { isPromise } from '../../promises.js'
import { nodeTimers, withTimeout } from '../../time-limit.js'
import { MemoryQuotaStore } from '../memory/memory-store.js'
import { acquireSideBySide, haveRoom } from '../side-by-side.js'
import {
  acquireFrom,
  assertDemand,
  assertDemands,
  assertStore,
  assertUsed,
  rejectForeignAcquisition
} from '../checks.js'
import type {
  Acquisition,
  Acquisitions,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState
} from '../store.js'
import { InsuredAcquisition } from './insured-acquisition.js'
import type {
  InsuredQuotaStoreOptions,
  InsuredQuotaStoreState,
  InsuredShards,
  PrimaryQuotaStore
} from './options.js'

type StoreName = 'primary' | 'fallback'

const optionalFunctions = [
  'settle',
  'peek',
  'forget',
  'list',
  'inspect',
  'clearCounters'
] satisfies (keyof QuotaStore)[]

// Marks the cursors of the fallback.
const fallbackMark = 'fallback:'

/**
 * Uses a primary store, and a fallback store if the primary fails or does not return within
 * `timeout`. Every request is counted by one of them. If the fallback also fails, the call fails.
 * The store has the optional functions that both stores have.
 *
 * Each shard of the primary has a state of its own. A primary without a function `shardOf` has one
 * shard. Only `acquire` changes a state:
 *
 * | state of the shard | which store decides | next state |
 * |---|---|---|
 * | used | the primary, or the fallback if the primary fails | resting, after a failure |
 * | resting | the fallback | due, after `coolDown` |
 * | due, not tried | the primary tries one request | being tried |
 * | being tried | the fallback, on all other requests | used or resting, by the result |
 *
 * Only a decision of the primary's own server leads from a trial to *used*. A rejection from memory
 * (`isRemembered`) is returned, and the next request tries again. Each change to *used* or
 * *resting* from the other is published once on the diagnostics channel
 * `fastify-llm-quota:insured-store`, and the plugin logs it.
 *
 * A late response from the primary is ignored, and what it counted is settled with 0. A stall of
 * the process's own event loop is not a failure: a result that has arrived by the end of the stall
 * is used.
 *
 * @throws {OptionError} If an option has an invalid value.
 */
export class InsuredQuotaStore implements QuotaStore {
  /** The store that is used as long as it works. */
  readonly primary: PrimaryQuotaStore
  /** The store that is used while the primary is unavailable. */
  readonly fallback: QuotaStore
  /**
   * The number of calls of `acquire` that each store decided. A request whose callers are in
   * several shards makes several calls.
   */
  readonly decisions: Record<StoreName, number> = { primary: 0, fallback: 0 }
  // The timeout is that of each of the two stores.
  readonly #timing: Required<Omit<InsuredQuotaStoreOptions, StoreName>>
  readonly #breakers = new Map<number, CircuitBreaker>()

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
    this.#timing = {
      timeout: this.fallback instanceof MemoryQuotaStore ? timeout : timeout / 2,
      coolDown,
      clock,
      timers
    }
    for (const name of optionalFunctions) {
      if (hasFunction(this.primary, name) && hasFunction(this.fallback, name)) continue
      // Hides the method of the class, so that the plugin names the function that is missing when
      // it starts.
      Object.defineProperty(this, name, { value: undefined })
    }
  }

  /** The store that is currently used. */
  get state (): InsuredQuotaStoreState {
    const { primary, fallback } = this.shards
    if (fallback.length === 0) return 'primary'
    return primary.length === 0 ? 'fallback' : 'both'
  }

  /**
   * The shards of the primary that a call has reached, by the store that is currently used. A
   * primary without shards has only shard 0.
   */
  get shards (): InsuredShards {
    const primary: number[] = []
    const fallback: number[] = []
    for (const [shard, breaker] of this.#breakers) {
      if (breaker.isOpen) fallback.push(shard)
      else primary.push(shard)
    }
    return { primary: primary.sort(ascending), fallback: fallback.sort(ascending) }
  }

  async acquire (demands: readonly Demand[]): Promise<Acquisitions> {
    assertDemands(demands)
    const acquisitions = await acquireSideBySide(
      new Map(demands.map((demand) => [demand, this.#breakerOf(demand.callerKey)])),
      (breaker, part) => this.#decide(breaker, part),
      (_breaker, acquisition) => {
        if (acquisition instanceof InsuredAcquisition) acquisition.settleUnused()
      }
    )
    return acquisitions.map((acquisition) => {
      if (acquisition === null || acquisition instanceof InsuredAcquisition) return acquisition
      // Another shard has rejected the request.
      return new InsuredAcquisition(this, acquisition, null)
    })
  }

  /**
   * Settles in the store that made the acquisition. Rejects if that store fails or does not finish
   * in time. Does not change the state.
   */
  async settle? (acquisition: Acquisition, used: number): Promise<void> {
    assertUsed(used)
    const isOwn = acquisition instanceof InsuredAcquisition && acquisition.isOf(this)
    if (!isOwn) rejectForeignAcquisition()
    await this.#inTime(acquisition.settle(used))
  }

  /**
   * Reads a caller's count from the store that now decides on the caller, or from the fallback if
   * the primary fails or is too slow.
   */
  async peek? (demand: Demand): Promise<QuotaCount | null> {
    assertDemand(demand)
    const { isOpen } = this.#breakerOf(demand.callerKey)
    return this.#read(isOpen, (store, name) => {
      assertStore(store, name, 'peek')
      return store.peek(demand)
    })
  }

  /**
   * Removes the caller's counter from both stores. Rejects if one of them fails or does not finish
   * in time.
   */
  forget? (callerKey: string, counters: string): Promise<void> {
    return this.#callBoth((store) => store.forget?.(callerKey, counters))
  }

  /**
   * Lists the callers of the primary, or those of the fallback if it decides on all callers, or if
   * the primary fails or is too slow. The next pages come from the same store. Rejects if it then
   * fails.
   */
  async list? (counters: string, cursor?: string): Promise<CallerPage> {
    if (cursor === undefined) {
      return this.#read(this.state === 'fallback', (_store, name) => this.#page(name, counters))
    }
    return cursor.startsWith(fallbackMark)
      ? this.#page('fallback', counters, cursor.slice(fallbackMark.length))
      : this.#page('primary', counters, cursor)
  }

  /**
   * Clears both stores. Rejects if one of them fails or does not finish in time. Does not change
   * the state.
   */
  clearCounters? (): Promise<void> {
    return this.#callBoth((store) => store.clearCounters?.())
  }

  /**
   * Inspects the primary, or the fallback if it decides on all callers, or if the primary fails or
   * is too slow.
   */
  async inspect? (counters: string): Promise<QuotaStoreState> {
    return this.#read(this.state === 'fallback', (store, name) => {
      assertStore(store, name, 'inspect')
      return store.inspect(counters)
    })
  }

  #breakerOf (callerKey: string): CircuitBreaker {
    const shard = this.primary.shardOf?.(callerKey) ?? 0
    if (!isNatural(shard)) {
      throw new TypeError(
        'the function shardOf of the primary store must return an integer of at least 0; ' +
          `it got ${format(shard)}`
      )
    }
    let breaker = this.#breakers.get(shard)
    if (breaker === undefined) {
      breaker = new CircuitBreaker({
        coolDown: this.#timing.coolDown,
        clock: this.#timing.clock,
        onChange: (isOpen, error) => {
          this.#publish(shard, isOpen, error)
        }
      })
      this.#breakers.set(shard, breaker)
    }
    return breaker
  }

  #publish (shard: number, isOpen: boolean, error: unknown): void {
    const state = isOpen ? 'fallback' : 'primary'
    const change: InsuredQuotaStoreChange = { store: this, shard, state, error }
    insuredStoreChanges.publish(change)
  }

  /** Decides on the demands of one shard. */
  async #decide (breaker: CircuitBreaker, demands: readonly Demand[]): Promise<Acquisitions> {
    const phase = breaker.startCall()
    if (phase === undefined) return this.#decideBy('fallback', demands)
    let acquisitions
    try {
      acquisitions = await this.#decideBy('primary', demands)
    } catch (error) {
      breaker.failed(phase, error)
      return this.#decideBy('fallback', demands)
    }
    if (acquisitions.some((acquisition) => acquisition?.isRemembered === true)) {
      breaker.inconclusive(phase)
    } else {
      breaker.succeeded(phase)
    }
    return acquisitions
  }

  /** Returns what a store decides if it is valid and arrives in time. */
  async #decideBy (name: StoreName, demands: readonly Demand[]): Promise<Acquisitions> {
    const store = this[name]
    const acquisitions = await this.#inTime(acquireFrom(store, demands), (late) => {
      if (!haveRoom(late)) return
      for (const made of late) new InsuredAcquisition(this, made, store).settleUnused()
    })
    this.decisions[name] += 1
    return acquisitions.map((made) => made && new InsuredAcquisition(this, made, store))
  }

  async #page (name: StoreName, counters: string, cursor?: string): Promise<CallerPage> {
    const store = this[name]
    assertStore(store, name, 'list')
    const page = await this.#inTime(store.list(counters, cursor))
    if (name === 'primary' || page.cursor === null) return page
    return { ...page, cursor: fallbackMark + page.cursor }
  }

  async #read<Result>(
    isPrimaryDown: boolean,
    question: (store: QuotaStore, name: StoreName) => Result | Promise<Result>
  ): Promise<Result> {
    if (!isPrimaryDown) {
      try {
        return await this.#inTime(question(this.primary, 'primary'))
      } catch {
        // The fallback is asked below.
      }
    }
    return this.#inTime(question(this.fallback, 'fallback'))
  }

  // Both are called in the same turn of the event loop, so that no request comes between the two
  // calls.
  async #callBoth (call: (store: QuotaStore) => void | Promise<void>): Promise<void> {
    const calls = [this.primary, this.fallback].map(async (store) => this.#inTime(call(store)))
    await Promise.all(calls)
  }

  async #inTime<Result>(
    result: Result | PromiseLike<Result>,
    late: (result: Result) => void = () => {}
  ): Promise<Result> {
    if (!isPromise(result)) return result
    const { timeout, clock, timers } = this.#timing
    return withTimeout(timeout, result, { clock, timers, late })
  }
}

/** The default fallback. */
function memoryBeside (primary: PrimaryQuotaStore, clock: () => number): MemoryQuotaStore {
  const { maxTrackedCallers } = primary
  return maxTrackedCallers === undefined
    ? new MemoryQuotaStore({ clock })
    : new MemoryQuotaStore({ clock, maxTrackedCallers })
}

function ascending (one: number, other: number): number {
  return one - other
}
