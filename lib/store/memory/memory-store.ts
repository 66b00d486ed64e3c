// Each look at the global `performance` would call a getter.
import { performance } from 'node:perf_hooks'
import { assertFunction, assertOptions } from '../../option-checks.js'
import {
  assertDemand,
  assertDemands,
  assertMaxTrackedCallers,
  assertUsed,
  defaultMaxTrackedCallers
} from '../store.js'
import type {
  Acquisition,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState
} from '../store.js'
import { MemoryAcquisition } from './memory-acquisition.js'
import { MemoryCounters } from './memory-counters.js'
import { MemoryPlaces } from './memory-places.js'

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
  readonly #places = new Map<string, MemoryPlaces>()

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
    assertDemands(demands)
    const now = this.#clock()
    const acquisitions: MemoryAcquisition[] = []
    let haveRoom = true
    for (const demand of demands) {
      const acquisition = this.#reach(demand, now)
      acquisitions.push(acquisition)
      if (!acquisition.admitted) haveRoom = false
    }
    if (haveRoom) {
      for (const acquisition of acquisitions) this.#take(acquisition)
    }
    return acquisitions
  }

  settle (acquisition: Acquisition, used: number, end: number | null): void {
    assertUsed(used)
    if (!(acquisition instanceof MemoryAcquisition) || !acquisition.isCounted) return
    const { counters, callerKey, window } = acquisition.demand
    if (window === null) {
      acquisition.settle(0)
      this.#places.get(counters)?.drop(callerKey, acquisition.window)
      return
    }
    const more = acquisition.settle(used)
    if (more === 0) return
    const now = this.#clock()
    const quota = this.#countersOf(counters)
    const counter = quota.own(callerKey, now, window) ?? quota.overflow
    acquisition.takeMore(counter.reach(now, window, end), more)
  }

  peek (demand: Demand): QuotaCount | null {
    assertDemand(demand)
    const { counters, callerKey, window, end } = demand
    if (window === null) return this.#placesOf(counters).peek(callerKey)
    return this.#countersOf(counters).peek(callerKey, this.#clock(), window, end)
  }

  forget (callerKey: string, counters: string): void {
    this.#counters.get(counters)?.forget(callerKey)
  }

  /** Returns all callers on one page. */
  list (counters: string): CallerPage {
    const concurrent = this.#places.get(counters)?.list() ?? []
    const inWindows = this.#counters.get(counters)?.list(this.#clock()) ?? []
    return { callers: [...concurrent, ...inWindows], cursor: null }
  }

  inspect (counters: string): QuotaStoreState {
    const inWindows = this.#counters.get(counters)
    if (inWindows !== undefined) return inWindows.inspect()
    return { trackedCallers: this.#places.get(counters)?.size ?? 0, sweeps: 0 }
  }

  clearCounters (): void {
    this.#counters.clear()
    this.#places.clear()
  }

  #reach (demand: Demand, now: number): MemoryAcquisition {
    const { counters, callerKey, window: length, end } = demand
    if (length === null) {
      return new MemoryAcquisition(demand, this.#placesOf(counters).reach(callerKey), now, false)
    }
    const quota = this.#countersOf(counters)
    const own = quota.own(callerKey, now, length)
    const window = (own ?? quota.overflow).reach(now, length, end)
    return new MemoryAcquisition(demand, window, now, own === undefined)
  }

  #take (acquisition: MemoryAcquisition): void {
    acquisition.take()
    const { counters, callerKey, window } = acquisition.demand
    if (window === null) this.#placesOf(counters).add(callerKey, acquisition.window)
  }

  #countersOf (name: string): MemoryCounters {
    let counters = this.#counters.get(name)
    if (counters === undefined) {
      counters = new MemoryCounters(this.maxTrackedCallers)
      this.#counters.set(name, counters)
    }
    return counters
  }

  #placesOf (name: string): MemoryPlaces {
    let places = this.#places.get(name)
    if (places === undefined) {
      places = new MemoryPlaces()
      this.#places.set(name, places)
    }
    return places
  }
}
