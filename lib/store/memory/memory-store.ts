// Each look at the global `performance` would call a getter.
import { performance } from 'node:perf_hooks'
import { periodOf } from '../counter.js'
import { assertFunction, assertOptions } from '../../option-checks.js'
import {
  assertDemand,
  assertDemands,
  assertMaxTrackedCallers,
  assertUsed,
  rejectForeignAcquisition
} from '../checks.js'
import { defaultMaxTrackedCallers } from '../store.js'
import type {
  Acquisition,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState
} from '../store.js'
import { MemoryCounters } from './memory-counters.js'
import { MemoryPlaces, PlaceAcquisition } from './memory-places.js'
import { WindowAcquisition } from './memory-window.js'

type MemoryAcquisition = WindowAcquisition | PlaceAcquisition

const defaultClock = performance.now.bind(performance)

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
    const { maxTrackedCallers = defaultMaxTrackedCallers, clock = defaultClock } = options
    this.maxTrackedCallers = maxTrackedCallers
    this.#clock = clock
  }

  acquire (demands: readonly Demand[]): readonly Acquisition[] {
    assertDemands(demands)
    const now = this.#clock()
    const acquisitions: MemoryAcquisition[] = []
    let isAdmitted = true
    for (const demand of demands) {
      const acquisition = this.#reach(demand, now)
      acquisitions.push(acquisition)
      if (!acquisition.admitted) isAdmitted = false
    }
    for (const acquisition of acquisitions) acquisition.decide(isAdmitted)
    return acquisitions
  }

  settle (acquisition: Acquisition, used: number): void {
    assertUsed(used)
    const isKnown =
      acquisition instanceof WindowAcquisition || acquisition instanceof PlaceAcquisition
    if (!isKnown || !acquisition.isOf(this)) rejectForeignAcquisition()
    acquisition.settle(used)
  }

  peek (demand: Demand): QuotaCount | null {
    assertDemand(demand)
    const { counters, callerKey, window } = demand
    if (window === null) return this.#placesOf(counters).peek(callerKey)
    return this.#counters.get(counters)?.peek(demand, window, this.#clock()) ?? null
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
    return { trackedCallers: this.#places.get(counters)?.callers ?? 0, sweeps: 0 }
  }

  clearCounters (): void {
    this.#counters.clear()
    this.#places.clear()
  }

  #reach (demand: Demand, now: number): MemoryAcquisition {
    const { counters, window: length } = demand
    if (length === null) return new PlaceAcquisition(this, demand, this.#placesOf(counters))
    const quota = this.#counters.get(counters) ?? this.#addCounters(counters)
    const reached = quota.reach(demand, length, now)
    return new WindowAcquisition(this, demand, reached, now, periodOf(now))
  }

  #addCounters (name: string): MemoryCounters {
    const counters = new MemoryCounters(this.maxTrackedCallers)
    this.#counters.set(name, counters)
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
