// Each look at the global `performance` would call a getter.
import { performance } from 'node:perf_hooks'
import { assertFunction, assertOptions } from '../../option-checks.js'
import { hasRoom, Tally } from '../counter.js'
import {
  assertMaxTrackedCallers, defaultMaxTrackedCallers, type Acquisition, type CallerPage, type Demand, type QuotaCount, type QuotaStore,
  type QuotaStoreState
} from '../store.js'
import { MemoryCounters } from './memory-counters.js'

/** Options of `MemoryQuotaStore`. */
export interface MemoryQuotaStoreOptions {
  /** The caller cap: how many callers can have a counter of their own. An integer from 1 to 2^24; default 10,000. */
  readonly maxTrackedCallers?: number
  /** Returns monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number
}

/**
 * Stores the quota counters in this process (docs/rules.md, "Store"). Returns its results synchronously. Holds at most `maxTrackedCallers`
 * counters and the overflow counter, for each quota. A sweep, once a minute, looks at all of them.
 *
 * @throws {OptionError} If an option has an invalid value.
 */
export class MemoryQuotaStore implements QuotaStore {
  /** The caller cap: how many callers can have a counter of their own, in each quota. */
  readonly maxTrackedCallers: number
  readonly #clock: () => number
  readonly #counters = new Map<string, MemoryCounters>()
  readonly #places = new Map<string, Map<string, Tally>>()

  constructor (options: MemoryQuotaStoreOptions = {}) {
    assertOptions<MemoryQuotaStoreOptions>(options, { maxTrackedCallers: assertMaxTrackedCallers, clock: assertFunction })
    const { maxTrackedCallers = defaultMaxTrackedCallers, clock = () => performance.now() } = options
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
    if (window === null) return { count: this.#places.get(counters)?.get(callerKey)?.count ?? 0, windowRemaining: null, overflow: false }
    return this.#countersOf(counters).peek(callerKey, this.#clock(), window, end)
  }

  forget (callerKey: string, counters: string): void {
    this.#counters.get(counters)?.forget(callerKey)
  }

  /** Returns all callers on one page. */
  list (counters: string): CallerPage {
    const places = [...this.#places.get(counters) ?? []].map(([callerKey, { count }]) => ({ callerKey, count, windowRemaining: null }))
    return { callers: [...places, ...this.#counters.get(counters)?.list(this.#clock()) ?? []], cursor: null }
  }

  inspect (counters: string): QuotaStoreState {
    return this.#counters.get(counters)?.inspect() ?? { trackedCallers: this.#places.get(counters)?.size ?? 0, sweeps: 0 }
  }

  clearCounters (): void {
    this.#counters.clear()
    this.#places.clear()
  }

  #reach ({ counters, callerKey, limit, cost, window: length, end }: Demand, now: number): MemoryAcquisition {
    if (length === null) {
      const places = this.#placesOf(counters, callerKey)
      return new MemoryAcquisition(places, cost, hasRoom(places.count, limit, cost), null, false)
    }
    const quota = this.#countersOf(counters)
    const own = quota.own(callerKey, now, length)
    const window = (own ?? quota.overflow).reach(now, length, end)
    const acquisition = new MemoryAcquisition(window, cost, hasRoom(window.count, limit, cost), window.remaining(now), own === undefined)
    if (window.end !== null) acquisition.end = window.end
    return acquisition
  }

  #countersOf (name: string): MemoryCounters {
    return this.#counters.get(name) ?? added(this.#counters, name, new MemoryCounters(this.maxTrackedCallers))
  }

  #placesOf (name: string, callerKey: string): Tally {
    const places = this.#places.get(name) ?? added(this.#places, name, new Map<string, Tally>())
    return places.get(callerKey) ?? new CallerPlaces(callerKey, places)
  }
}

function added<Value> (map: Map<string, Value>, name: string, value: Value): Value {
  map.set(name, value)
  return value
}

/** The requests of one caller in flight. It is kept only while there are any. */
class CallerPlaces extends Tally {
  readonly #callerKey: string
  readonly #all: Map<string, Tally>

  constructor (callerKey: string, all: Map<string, Tally>) {
    super()
    this.#callerKey = callerKey
    this.#all = all
  }

  override add (amount: number): void {
    super.add(amount)
    this.#all.set(this.#callerKey, this)
  }

  override giveBack (amount: number): void {
    super.giveBack(amount)
    if (this.count === 0 && this.#all.get(this.#callerKey) === this) this.#all.delete(this.#callerKey)
  }
}

/** An acquisition that knows which window, or which caller's places, it was counted in. */
class MemoryAcquisition implements Acquisition {
  admitted: boolean
  count: number
  windowRemaining: number | null
  declare end?: number
  overflow: boolean
  readonly #tally: Tally
  readonly #cost: number
  // What can still be given back.
  #held = 0

  constructor (tally: Tally, cost: number, admitted: boolean, windowRemaining: number | null, overflow: boolean) {
    this.#tally = tally
    this.#cost = cost
    this.admitted = admitted
    this.count = tally.count
    this.windowRemaining = windowRemaining
    this.overflow = overflow
  }

  take (): void {
    this.#tally.add(this.#cost)
    this.#held = this.#cost
    this.count = this.#tally.count
  }

  giveBack (amount: number): void {
    const given = Math.min(amount, this.#held)
    this.#held -= given
    this.#tally.giveBack(given)
  }
}
