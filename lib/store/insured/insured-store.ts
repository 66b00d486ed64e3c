import { CircuitBreaker } from '../../circuit-breaker.js'
import {
  assertFunction,
  assertMilliseconds,
  assertOptions,
  hasFunction,
  withFunctions
} from '../../option-checks.js'
import { attempt, isPromise, proceed, promised } from '../../promises.js'
import { nodeTimers, within } from '../../time-limit.js'
import { MemoryQuotaStore } from '../memory/memory-store.js'
import { acquireSideBySide, haveRoom } from '../side-by-side.js'
import { acquireFrom, assertStore } from '../store.js'
import type {
  Acquisition,
  Acquisitions,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState
} from '../store.js'
import {
  insuredStoreChanges,
  type InsuredQuotaStoreChange,
  type InsuredQuotaStoreState,
  type InsuredShards
} from './changes.js'
import type { InsuredQuotaStoreOptions, PrimaryQuotaStore } from './options.js'

// A function that a store lacks is not called, because the insured store then lacks it as well.
type Functions = Required<QuotaStore>
const optionalFunctions = [
  'release',
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
 * `timeout`. Every request is counted by one of them. A late response from the primary is ignored,
 * and what it counted is released. If the fallback also fails, the call fails. The store has the
 * optional functions that both stores have.
 *
 * A stall of the process's own event loop is not a failure of the primary: a result that has
 * arrived by the end of the stall is used.
 *
 * Only `acquire` changes the state. After a failure, the primary is not called for `coolDown`. Then
 * one request at a time tries it again, while the fallback decides on all others. The primary is
 * used again as soon as its own server responds. A store on a server can reject a caller from
 * memory, in which case it returns its result synchronously although it otherwise returns promises.
 * Such a result is used but does not change the state. A wrapper around a primary must therefore
 * return synchronous results synchronously.
 *
 * A primary with a function `shardOf` is called once for the demands of each shard, and fails and
 * recovers by shard: the callers of the other shards are not affected. Each change of a shard is
 * published once on the diagnostics channel `fastify-llm-quota:insured-store`, and the plugin logs
 * it.
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
  readonly decisions: Record<'primary' | 'fallback', number> = { primary: 0, fallback: 0 }
  readonly #stores: Readonly<Record<'primary' | 'fallback', Functions>>
  // The timeout is that of each of the two stores.
  readonly #timing: Required<Omit<InsuredQuotaStoreOptions, 'primary' | 'fallback'>>
  readonly #breakers = new Map<number, CircuitBreaker>()
  // The store that made each acquisition.
  readonly #makers = new WeakMap<Acquisition, QuotaStore>()
  #primaryPromises = false

  constructor (options: InsuredQuotaStoreOptions) {
    const assertTimers = withFunctions('timers', 'setTimeout', 'clearTimeout')
    const ofTime = {
      timeout: assertMilliseconds,
      coolDown: assertMilliseconds,
      clock: assertFunction,
      timers: assertTimers
    }
    assertOptions<InsuredQuotaStoreOptions>(options, {
      primary: assertStore,
      fallback: assertStore,
      ...ofTime
    })
    assertStore(options.primary, 'primary')
    const {
      primary,
      timeout = 100,
      coolDown = 1000,
      clock = () => performance.now(),
      timers = nodeTimers
    } = options
    const { maxTrackedCallers } = primary
    const {
      fallback = new MemoryQuotaStore({
        clock,
        ...(maxTrackedCallers !== undefined && { maxTrackedCallers })
      })
    } = options
    this.primary = primary
    this.fallback = fallback
    this.#stores = { primary, fallback } as Record<'primary' | 'fallback', Functions>
    this.#timing = {
      timeout: fallback instanceof MemoryQuotaStore ? timeout : timeout / 2,
      coolDown,
      clock,
      timers
    }
    for (const name of optionalFunctions) {
      if (!hasFunction(primary, name) || !hasFunction(fallback, name)) {
        Object.defineProperty(this, name, { value: undefined })
      }
    }
  }

  /** The store that is currently used. */
  get state (): InsuredQuotaStoreState {
    const { primary, fallback } = this.shards
    return fallback.length === 0 ? 'primary' : primary.length === 0 ? 'fallback' : 'both'
  }

  /**
   * The shards of the primary that a call has reached, by the store that is currently used. A
   * primary without shards has only shard 0.
   */
  get shards (): InsuredShards {
    const reached = [...this.#breakers].sort(([one], [other]) => one - other)
    const shardsWith = (isOpen: boolean) =>
      reached.filter(([, breaker]) => breaker.isOpen === isOpen).map(([shard]) => shard)
    return { primary: shardsWith(false), fallback: shardsWith(true) }
  }

  acquire (demands: readonly Demand[]): Acquisitions | Promise<Acquisitions> {
    const breakers = demands.map(({ callerKey }) => this.#breakerOf(callerKey))
    return acquireSideBySide(
      demands,
      breakers,
      (breaker, part) => this.#decide(breaker, part),
      (_breaker, acquisition, amount) => {
        this.#giveBack(acquisition, amount)
      }
    )
  }

  /**
   * Releases in the store that made the acquisition. Rejects if that store fails or does not finish
   * in time. Does not change the state.
   */
  release? (acquisition: Acquisition, amount: number): void | Promise<void> {
    return this.#inTime(this.#makers.get(acquisition)?.release?.(acquisition, amount))
  }

  /**
   * Reads a caller's count from the store that now decides on the caller, or from the fallback if
   * the primary fails or is too slow.
   */
  peek? (demand: Demand): QuotaCount | null | Promise<QuotaCount | null> {
    return this.#read(this.#breakerOf(demand.callerKey).isOpen, (store) => store.peek(demand))
  }

  /**
   * Removes the caller's counter from both stores. Rejects if one of them fails or does not finish
   * in time.
   */
  forget? (callerKey: string, counters: string): Promise<void> {
    return this.#tellBoth((store) => store.forget(callerKey, counters))
  }

  /**
   * Lists the callers of the primary, or those of the fallback if it decides on all callers, or if
   * the primary fails or is too slow. The next pages come from the same store. Rejects if it then
   * fails.
   */
  list? (counters: string, cursor?: string): CallerPage | Promise<CallerPage> {
    const { primary, fallback } = this.#stores
    const pageOf = (store: Functions, from?: string): CallerPage | Promise<CallerPage> =>
      proceed(this.#inTime(store.list(counters, from)), (page) =>
        page.cursor === null || store === primary
          ? page
          : { ...page, cursor: fallbackMark + page.cursor }
      )
    if (cursor === undefined) return this.#read(this.state === 'fallback', pageOf)
    return cursor.startsWith(fallbackMark)
      ? pageOf(fallback, cursor.slice(fallbackMark.length))
      : pageOf(primary, cursor)
  }

  /**
   * Clears both stores. Rejects if one of them fails or does not finish in time. Does not change
   * the state.
   */
  clearCounters? (): Promise<void> {
    return this.#tellBoth((store) => store.clearCounters())
  }

  /**
   * Inspects the primary, or the fallback if it decides on all callers, or if the primary fails or
   * is too slow.
   */
  inspect? (counters: string): QuotaStoreState | Promise<QuotaStoreState> {
    return this.#read(this.state === 'fallback', (store) => store.inspect(counters))
  }

  #breakerOf (callerKey: string): CircuitBreaker {
    const shard = this.primary.shardOf?.(callerKey) ?? 0
    const onChange = (isOpen: boolean, error: unknown): void => {
      insuredStoreChanges.publish({
        store: this,
        shard,
        state: isOpen ? 'fallback' : 'primary',
        error
      } satisfies InsuredQuotaStoreChange)
    }
    const breaker = this.#breakers.get(shard) ?? new CircuitBreaker({ ...this.#timing, onChange })
    this.#breakers.set(shard, breaker)
    return breaker
  }

  /** Decides on the demands of one shard. */
  #decide (
    breaker: CircuitBreaker,
    demands: readonly Demand[]
  ): Acquisitions | Promise<Acquisitions> {
    const era = breaker.startCall()
    if (era === undefined) return this.#decideBy('fallback', demands)
    return attempt(
      () => {
        const decided = this.#decideBy('primary', demands)
        const isAwaited = decided instanceof Promise
        this.#primaryPromises ||= isAwaited
        return proceed(decided, (acquisitions) => {
          // A result that was not awaited may come from memory.
          if (isAwaited || !this.#primaryPromises) breaker.succeeded(era)
          else breaker.provedNothing()
          return acquisitions
        })
      },
      (error) => {
        breaker.failed(era, error)
        return this.#decideBy('fallback', demands)
      }
    )
  }

  /**
   * Returns what a store decides if it is valid and arrives in time. What a later result has
   * counted is given back.
   */
  #decideBy (
    name: 'primary' | 'fallback',
    demands: readonly Demand[]
  ): Acquisitions | Promise<Acquisitions> {
    const store = this.#stores[name]
    const decided = proceed(acquireFrom(store, demands), (acquisitions) => {
      for (const acquisition of acquisitions) {
        if (acquisition !== null) this.#makers.set(acquisition, store)
      }
      return acquisitions
    })
    const giveBackAll = (late: Acquisitions): void => {
      if (haveRoom(late)) {
        late.forEach((acquisition, index) => {
          this.#giveBack(acquisition, Number(demands[index]?.cost))
        })
      }
    }
    return proceed(this.#inTime(decided, giveBackAll), (acquisitions) => {
      this.decisions[name] += 1
      return acquisitions
    })
  }

  /**
   * Gives back without waiting. An error is ignored: what is not given back stays counted until the
   * window, or the place's lease, ends.
   */
  #giveBack (acquisition: Acquisition, amount: number): void {
    attempt<void>(
      () => promised(this.#makers.get(acquisition)?.release?.(acquisition, amount)),
      () => {}
    )
  }

  #read<Result>(
    isPrimaryDown: boolean,
    question: (store: Functions) => Result | Promise<Result>
  ): Result | Promise<Result> {
    const ask = (name: 'primary' | 'fallback') => this.#inTime(question(this.#stores[name]))
    return isPrimaryDown
      ? ask('fallback')
      : attempt(
        () => ask('primary'),
        () => ask('fallback')
      )
  }

  // Both are called in the same turn of the event loop, so that no request comes between the two
  // calls.
  async #tellBoth (task: (store: Functions) => void | Promise<void>): Promise<void> {
    await Promise.all(Object.values(this.#stores).map(async (store) => this.#inTime(task(store))))
  }

  #inTime<Result>(
    result: Result | PromiseLike<Result>,
    late?: (result: Result) => void
  ): Result | Promise<Result> {
    return isPromise(result)
      ? within(this.#timing.timeout, result, {
        ...this.#timing,
        ...(late !== undefined && { late })
      })
      : result
  }
}
