import { performance } from 'node:perf_hooks'
import { OptionError } from '../../errors.js'
import { shown } from '../../shown.js'
import { assertMaxTrackedCallers, defaultMaxTrackedCallers } from '../max-tracked-callers.js'
import { assertOptionNames } from '../option-names.js'
import type { Acquisition, QuotaCount, QuotaStore, QuotaStoreState } from '../store.js'
import { isRemovedBySweep, isSweepDue, sweepInterval } from '../sweep.js'
import { TrackedCallers } from './tracked-callers.js'
import { TrackedCounter } from './tracked-counter.js'

const never = -Infinity

// More than the rounding of a sum of two times, in milliseconds.
const roundingAllowance = 1

// Spreads the deletion of a million counters over 2,000 requests; docs/benchmarks.md lists the longest pauses.
const deletedPerRequest = 500

/**
 * Options of `MemoryQuotaStore`.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore, type MemoryQuotaStoreOptions } from 'fastify-llm-quota'
 *
 * const options: MemoryQuotaStoreOptions = { maxTrackedCallers: 50_000, clock: () => performance.now() }
 * console.log(new MemoryQuotaStore(options).inspect()) // { trackedCallers: 0, sweeps: 0 }
 * ```
 */
export interface MemoryQuotaStoreOptions {
  /** The caller cap: how many callers can have a counter of their own. An integer from 1 to 2^24; default 10,000. */
  readonly maxTrackedCallers?: number
  /** Returns monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number
}

/**
 * Keeps the quota counters in this process (docs/rules.md, "Store"). Returns its results synchronously. Holds at most
 * `maxTrackedCallers` counters and the overflow counter.
 *
 * @throws {OptionError} If an option has an invalid value.
 *
 * @example
 * ```ts
 * import { callerKey, localAuthentication, MemoryQuotaStore } from 'fastify-llm-quota'
 *
 * const store = new MemoryQuotaStore({ maxTrackedCallers: 50_000 })
 * const key = callerKey(localAuthentication('alice'))
 * if (key !== null) console.log(store.acquire(key, 10)) // { admitted: true, count: 1, windowRemaining: 60000, overflow: false }
 * ```
 */
export class MemoryQuotaStore implements QuotaStore {
  readonly #maxTrackedCallers: number
  readonly #clock: () => number
  readonly #callers: TrackedCallers
  #overflow: TrackedCounter | undefined
  #sweptAt = never
  // From this time on, requests call #cleanUp.
  #cleanUpAt = never
  #sweeps = 0

  constructor (options: MemoryQuotaStoreOptions = {}) {
    assertOptionNames(options, ['maxTrackedCallers', 'clock'] satisfies (keyof MemoryQuotaStoreOptions)[])
    const { maxTrackedCallers = defaultMaxTrackedCallers, clock = () => performance.now() } = options
    assertMaxTrackedCallers(maxTrackedCallers)
    if (typeof clock !== 'function') throw new OptionError('clock', 'must be a function', shown(clock))
    this.#maxTrackedCallers = maxTrackedCallers
    this.#clock = clock
    this.#callers = new TrackedCallers(maxTrackedCallers)
  }

  acquire (callerKey: string, limit: number): Acquisition {
    const now = this.#clock()
    if (now >= this.#cleanUpAt) this.#cleanUp(callerKey, now)
    let own = this.#callers.get(callerKey)
    if (own === undefined) {
      this.#deleteRemoved(1)
      if (this.#callers.size < this.#maxTrackedCallers) own = this.#callers.add(callerKey, now)
    } else if (own !== this.#callers.newest) {
      this.#callers.moveToNewest(own)
    }
    const counter = own ?? (this.#overflow ??= new TrackedCounter('', now))
    const admitted = counter.acquire(now, limit)
    const { count } = counter
    const windowRemaining = counter.windowRemaining(now)
    return { admitted, count, windowRemaining, overflow: own === undefined }
  }

  peek (callerKey: string): QuotaCount | null {
    const now = this.#clock()
    const sweptAt = isSweepDue(this.#sweptAt, now) ? now : this.#sweptAt
    const found = this.#callers.get(callerKey)
    const own = found !== undefined && !isRemovedBySweep(found.lastSeen, sweptAt) ? found : undefined
    const counter = own ?? (this.#hasRoom(sweptAt) ? undefined : this.#overflow)
    if (counter === undefined) return null
    const windowRemaining = counter.windowRemaining(now)
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
  }

  inspect (): QuotaStoreState {
    let removed = 0
    for (let counter = this.#callers.oldest; isRemovedBySweep(counter.lastSeen, this.#sweptAt); counter = counter.newer) removed += 1
    return { trackedCallers: this.#callers.size - removed, sweeps: this.#sweeps }
  }

  #hasRoom (sweptAt: number): boolean {
    return this.#callers.size < this.#maxTrackedCallers || isRemovedBySweep(this.#callers.oldest.lastSeen, sweptAt)
  }

  /** Runs a sweep if it is due, then deletes the caller's own counter if it is removed, and some of the other removed counters. */
  #cleanUp (callerKey: string, now: number): void {
    if (isSweepDue(this.#sweptAt, now)) this.#sweep(now)
    const own = this.#callers.get(callerKey)
    if (own !== undefined && isRemovedBySweep(own.lastSeen, this.#sweptAt)) this.#callers.remove(own)
    this.#deleteRemoved(deletedPerRequest)
    // The oldest counters are the removed ones. A sweep can be due slightly before this time, because numbers are rounded.
    this.#cleanUpAt = isRemovedBySweep(this.#callers.oldest.lastSeen, this.#sweptAt) ? never : this.#sweptAt + sweepInterval - roundingAllowance
  }

  /** Only records the time, which marks all expired counters as removed. `#deleteRemoved` frees their memory later. */
  #sweep (now: number): void {
    // The first request only starts the interval, so it is not counted as a sweep.
    if (this.#sweptAt !== never) this.#sweeps += 1
    this.#sweptAt = now
  }

  #deleteRemoved (most: number): void {
    for (let deleted = 0; deleted < most; deleted++) {
      const { oldest } = this.#callers
      if (!isRemovedBySweep(oldest.lastSeen, this.#sweptAt)) return
      this.#callers.remove(oldest)
    }
  }
}
