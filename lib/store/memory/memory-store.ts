// Each look at the global `performance` would call a getter.
import { performance } from 'node:perf_hooks'
import { assertFunction, assertOptions } from '../../option-checks.js'
import { Counter, counterRetention, sweepInterval, windowLength } from '../counter.js'
import { assertMaxTrackedCallers, defaultMaxTrackedCallers, type Acquisition, type Entry, type QuotaCount, type QuotaStore, type QuotaStoreState } from '../store.js'
import type { TrackedCounter } from './counter-index.js'
import { TrackedCallers } from './tracked-callers.js'

const never = -Infinity

// Spreads the deletion of a million counters over 2,000 requests; docs/benchmarks.md lists the longest pauses.
const deletedPerRequest = 500

/** Options of `MemoryQuotaStore`. */
export interface MemoryQuotaStoreOptions {
  /** The caller cap: how many callers can have a counter of their own. An integer from 1 to 2^24; default 10,000. */
  readonly maxTrackedCallers?: number
  /** Returns monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number
}

/**
 * Keeps the quota counters in this process (docs/rules.md, "Store"). Returns its results synchronously. Holds at most
 * `maxTrackedCallers` counters and the overflow counter, for each quota.
 *
 * @throws {OptionError} If an option has an invalid value.
 */
export class MemoryQuotaStore implements QuotaStore {
  /** The caller cap: how many callers can have a counter of their own. */
  readonly maxTrackedCallers: number
  readonly #clock: () => number
  readonly #callers: TrackedCallers
  readonly #inFlight = new Map<string, number>()
  readonly #quotas = new Map<string, MemoryQuotaStore>()
  #window = windowLength
  #overflow: Counter | undefined
  #sweptAt = never
  // From this time on, requests call #cleanUp.
  #cleanUpAt = never
  #sweeps = 0

  constructor (options: MemoryQuotaStoreOptions = {}) {
    assertOptions<MemoryQuotaStoreOptions>(options, { maxTrackedCallers: assertMaxTrackedCallers, clock: assertFunction })
    const { maxTrackedCallers = defaultMaxTrackedCallers, clock = () => performance.now() } = options
    this.maxTrackedCallers = maxTrackedCallers
    this.#clock = clock
    this.#callers = new TrackedCallers(maxTrackedCallers)
  }

  acquire (callerKey: string, limit: number, cost = 1): Acquisition {
    const now = this.#clock()
    if (now >= this.#cleanUpAt) this.#cleanUp(now)
    const own = this.#callers.findOrAdd(callerKey, now)
    const counter = own ?? (this.#overflow ??= new Counter(now))
    const admitted = counter.acquire(now, this.#window, limit, cost)
    return { admitted, count: counter.count, windowRemaining: this.#window - (now - counter.windowStart), overflow: own === undefined }
  }

  quota (name: string, window: number): MemoryQuotaStore {
    let quota = this.#quotas.get(name)
    if (quota === undefined) {
      quota = new MemoryQuotaStore({ maxTrackedCallers: this.maxTrackedCallers, clock: this.#clock })
      quota.#window = window
      this.#quotas.set(name, quota)
    }
    return quota
  }

  enter (callerKey: string, limit: number): Entry {
    const count = this.#inFlight.get(callerKey) ?? 0
    if (count >= limit) return { admitted: false, count }
    this.#inFlight.set(callerKey, count + 1)
    return { admitted: true, count: count + 1, leave: () => { this.#leave(callerKey) } }
  }

  peek (callerKey: string): QuotaCount | null {
    const now = this.#clock()
    const sweptAt = this.#isSweepDue(now) ? now : this.#sweptAt
    const own = this.#callers.get(callerKey)
    const hasRoom = !this.#callers.isFull || this.#isRemoved(this.#callers.oldest, sweptAt)
    const counter = own ?? (hasRoom ? undefined : this.#overflow)
    if (counter === undefined) return null
    const windowRemaining = this.#window - (now - counter.windowStart)
    return windowRemaining > 0 ? { count: counter.count, windowRemaining, overflow: own === undefined } : null
  }

  forget (callerKey: string): void {
    const counter = this.#callers.get(callerKey)
    if (counter !== undefined) this.#callers.remove(counter)
  }

  clearCounters (): void {
    this.#callers.clear()
    this.#overflow = undefined
    this.#sweptAt = never
    this.#cleanUpAt = never
    this.#sweeps = 0
    for (const quota of this.#quotas.values()) quota.clearCounters()
  }

  inspect (): QuotaStoreState {
    let removed = 0
    for (let counter = this.#callers.oldest; this.#isRemoved(counter); counter = counter.newer) removed += 1
    return { trackedCallers: this.#callers.size - removed, sweeps: this.#sweeps }
  }

  #isSweepDue (now: number): boolean {
    return now >= this.#sweptAt + sweepInterval
  }

  /** Whether a sweep at `sweptAt`, by default the latest one, removes the counter. */
  #isRemoved ({ lastSeen }: TrackedCounter, sweptAt = this.#sweptAt): boolean {
    return sweptAt - lastSeen >= counterRetention(this.#window)
  }

  /**
   * Runs a sweep if it is due: its time marks all expired counters as removed. Then deletes some of the removed ones. The window of a removed
   * counter is over, so a caller that finds its own one before that gets the same results as with a new one.
   */
  #cleanUp (now: number): void {
    if (this.#isSweepDue(now)) {
      // The first request only starts the interval, so it is not counted as a sweep.
      if (this.#sweptAt !== never) this.#sweeps += 1
      this.#sweptAt = now
    }
    // The oldest counters are the removed ones.
    for (let deleted = 0; deleted < deletedPerRequest && this.#isRemoved(this.#callers.oldest); deleted++) this.#callers.remove(this.#callers.oldest)
    this.#cleanUpAt = this.#isRemoved(this.#callers.oldest) ? never : this.#sweptAt + sweepInterval
  }

  #leave (callerKey: string): void {
    const count = Number(this.#inFlight.get(callerKey))
    if (count > 1) this.#inFlight.set(callerKey, count - 1)
    else this.#inFlight.delete(callerKey)
  }
}
