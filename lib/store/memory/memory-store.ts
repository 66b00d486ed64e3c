// Each look at the global `performance` would call a getter.
import { performance } from 'node:perf_hooks'
import { assertFunction, assertOptions, checkThat, isNatural } from '../../option-checks.js'
import {
  assertCallerKey,
  assertDemand,
  assertDemands,
  assertSettlement
} from '../argument-checks.js'
import { grantedAlike, grantOf, hasRoom, type Grant } from '../counter.js'
import { defaultMaxTrackedCallers } from '../store.js'
import type {
  Acquisition,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState,
  Settled
} from '../store.js'
import { MemoryCounters } from './memory-counters.js'
import { MemoryPlaces } from './memory-places.js'
import { assertMemoryReceipt } from './memory-receipt.js'
import type { MemoryWindow } from './memory-window.js'

/** A demand, what counts it, and what is counted before it. */
interface Reached extends Grant {
  readonly counter: MemoryWindow | MemoryPlaces
  readonly count: number
}

/** The largest caller cap: the capacity of a JavaScript `Map`. */
export const largestMaxTrackedCallers = 2 ** 24

const assertMaxTrackedCallers = checkThat(
  `must be an integer from 1 to ${largestMaxTrackedCallers}`,
  (value) => isNatural(value) && value >= 1 && value <= largestMaxTrackedCallers
)

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
    const reached: Reached[] = []
    let isAdmitted = true
    for (const demand of demands) {
      const each = this.#reach(demand, now)
      if (!hasRoom(each.count, demand)) isAdmitted = false
      reached.push(each)
    }
    const acquisitions: Acquisition[] = []
    for (const { demand, counter } of reached) {
      const acquisition = isAdmitted
        ? counter.admit(demand, grantedAlike(demand, reached), now)
        : counter.reject(demand, now)
      acquisitions.push(acquisition)
    }
    return acquisitions
  }

  settle (receipt: unknown, less: Settled, once?: string): boolean {
    assertMemoryReceipt(receipt)
    assertSettlement(less, once)
    if ('place' in receipt) {
      const places = this.#places.get(receipt.counters)
      return places?.settle(receipt, less) ?? false
    }
    const counters = this.#counters.get(receipt.counters)
    return counters?.settle(receipt, less, once, this.#clock()) ?? false
  }

  peek (demand: Demand): QuotaCount | null {
    assertDemand(demand)
    const { counters, callerKey, window } = demand
    if (window === null) return this.#placesOf(counters).stateOf(callerKey)
    return this.#counters.get(counters)?.peek(demand, window, this.#clock()) ?? null
  }

  forget (counters: string, callerKey: string): void {
    assertCallerKey(callerKey)
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

  #reach (demand: Demand, now: number): Reached {
    const { counters: name, callerKey, window: length } = demand
    if (length === null) {
      const places = this.#placesOf(name)
      const count = places.countOf(callerKey)
      return { demand, counter: places, count, granted: grantOf(count, demand) }
    }
    const counters = this.#counters.get(name) ?? this.#addCounters(name)
    const window = counters.reach(demand, length, now)
    const { count } = window
    return { demand, counter: window, count, granted: grantOf(count, demand) }
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
