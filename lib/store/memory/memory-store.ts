// Each look at the global `performance` would call a getter.
import { performance } from 'node:perf_hooks'
import { assertFunction, assertOptions } from '../../option-checks.js'
import { hasRoom, unlimited } from '../counter.js'
import { assertMaxTrackedCallers, defaultMaxTrackedCallers } from '../store.js'
import type {
  Acquisition,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState
} from '../store.js'
import { MemoryCounters } from './memory-counters.js'

/** Options of `MemoryQuotaStore`. */
export interface MemoryQuotaStoreOptions {
  /**
   * The caller cap: how many callers can have a counter of their own. An integer from 1 to 2^24;
   * default 10,000.
   */
  readonly maxTrackedCallers?: number
  /** Returns monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number
}

/**
 * Stores the quota counters in this process (docs/rules.md, "Store"). Returns its results
 * synchronously. Holds at most `maxTrackedCallers` counters and the overflow counter, for each
 * quota. A sweep, once a minute, looks at all of them.
 *
 * @throws {OptionError} If an option has an invalid value.
 */
export class MemoryQuotaStore implements QuotaStore {
  /** The caller cap: how many callers can have a counter of their own, in each quota. */
  readonly maxTrackedCallers: number
  readonly #clock: () => number
  readonly #counters = new Map<string, MemoryCounters>()
  // The requests in flight, by quota and caller. Callers without any are not kept.
  readonly #places = new Map<string, Map<string, number>>()

  constructor (options: MemoryQuotaStoreOptions = {}) {
    assertOptions<MemoryQuotaStoreOptions>(options, {
      maxTrackedCallers: assertMaxTrackedCallers,
      clock: assertFunction
    })
    const { maxTrackedCallers = defaultMaxTrackedCallers, clock = () => performance.now() } =
      options
    this.maxTrackedCallers = maxTrackedCallers
    this.#clock = clock
  }

  acquire (demands: readonly Demand[]): readonly Acquisition[] {
    const now = this.#clock()
    const acquisitions = demands.map((demand) => this.#reach(demand, now))
    for (const { admitted } of acquisitions) if (!admitted) return acquisitions
    for (const acquisition of acquisitions) acquisition.take()
    return acquisitions
  }

  release (acquisition: Acquisition, amount: number): void {
    if (acquisition instanceof MemoryAcquisition) acquisition.giveBack(amount)
  }

  peek ({ counters, callerKey, window, end }: Demand): QuotaCount | null {
    if (window === null) {
      return {
        count: this.#places.get(counters)?.get(callerKey) ?? 0,
        windowRemaining: null,
        overflow: false
      }
    }
    return this.#countersOf(counters).peek(callerKey, this.#clock(), window, end)
  }

  forget (callerKey: string, counters: string): void {
    this.#counters.get(counters)?.forget(callerKey)
  }

  /** Returns all callers on one page. */
  list (counters: string): CallerPage {
    const places = [...(this.#places.get(counters) ?? [])].map(([callerKey, count]) => ({
      callerKey,
      count,
      windowRemaining: null
    }))
    return {
      callers: [...places, ...(this.#counters.get(counters)?.list(this.#clock()) ?? [])],
      cursor: null
    }
  }

  inspect (counters: string): QuotaStoreState {
    return (
      this.#counters.get(counters)?.inspect() ?? {
        trackedCallers: this.#places.get(counters)?.size ?? 0,
        sweeps: 0
      }
    )
  }

  clearCounters (): void {
    this.#counters.clear()
    this.#places.clear()
  }

  #reach (
    { counters, callerKey, limit, cost, window: length, end }: Demand,
    now: number
  ): MemoryAcquisition {
    if (length === null) {
      const all =
        this.#places.get(counters) ?? added(this.#places, counters, new Map<string, number>())
      const places = new CallerPlaces(all, callerKey)
      return new MemoryAcquisition(places, cost, hasRoom(places.count, limit, cost), null, false)
    }
    const quota = this.#countersOf(counters)
    const own = quota.own(callerKey, now, length)
    const window = (own ?? quota.overflow).reach(now, length, end)
    const acquisition = new MemoryAcquisition(
      window,
      cost,
      hasRoom(window.count, limit, cost),
      window.remaining(now),
      own === undefined
    )
    if (window.end !== null) acquisition.end = window.end
    return acquisition
  }

  #countersOf (name: string): MemoryCounters {
    return (
      this.#counters.get(name) ??
      added(this.#counters, name, new MemoryCounters(this.maxTrackedCallers))
    )
  }
}

function added<Value> (map: Map<string, Value>, name: string, value: Value): Value {
  map.set(name, value)
  return value
}

/**
 * What is counted for a caller: in one window of a counter, or in flight. What is given back to a
 * past window changes no other.
 */
interface Tally {
  count: number
}

/** The requests of one caller in flight. */
class CallerPlaces implements Tally {
  readonly #all: Map<string, number>
  readonly #callerKey: string

  constructor (all: Map<string, number>, callerKey: string) {
    this.#all = all
    this.#callerKey = callerKey
  }

  get count (): number {
    return this.#all.get(this.#callerKey) ?? 0
  }

  set count (count: number) {
    if (count === 0) this.#all.delete(this.#callerKey)
    else this.#all.set(this.#callerKey, count)
  }
}

/** An acquisition that knows which window, or which caller's places, it was counted in. */
class MemoryAcquisition implements Acquisition {
  count: number
  declare end?: number
  readonly #tally: Tally
  readonly #cost: number
  // What can still be given back.
  #held = 0

  constructor (
    tally: Tally,
    cost: number,
    readonly admitted: boolean,
    readonly windowRemaining: number | null,
    readonly overflow: boolean
  ) {
    this.#tally = tally
    this.#cost = cost
    this.count = tally.count
  }

  take (): void {
    this.count = Math.min(this.#tally.count + this.#cost, unlimited)
    this.#tally.count = this.count
    this.#held = this.#cost
  }

  giveBack (amount: number): void {
    const given = Math.min(amount, this.#held)
    this.#held -= given
    this.#tally.count = Math.max(0, this.#tally.count - given)
  }
}
