import { Counter } from './counter.js'
import { OptionError, shown } from './errors.js'
import { assertMaxTrackedCallers, defaultMaxTrackedCallers } from './overflow.js'
import type { Acquisition, QuotaStore, QuotaStoreState } from './store.js'
import { counterRetention, sweepInterval } from './sweep.js'

/** What a `MemoryQuotaStore` can be told. */
export interface MemoryQuotaStoreOptions {
  /** How many callers have a counter of their own. Default 10,000 (specification, section 8). */
  readonly maxTrackedCallers?: number
  /** Gives monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number
}

/**
 * Keeps the quota counters in this process (specification, sections 3 and 8). It answers at once, and holds at most
 * `maxTrackedCallers` counters and the overflow counter.
 *
 * @throws {OptionError} When an option cannot be used.
 */
export class MemoryQuotaStore implements QuotaStore {
  readonly #maxTrackedCallers: number
  readonly #clock: () => number
  readonly #counters = new Map<string, Counter>()
  #overflow: Counter | undefined
  #previousSweep: number | undefined
  #sweeps = 0

  constructor ({ maxTrackedCallers = defaultMaxTrackedCallers, clock = () => performance.now() }: MemoryQuotaStoreOptions = {}) {
    assertMaxTrackedCallers(maxTrackedCallers)
    if (typeof clock !== 'function') throw new OptionError('clock', 'must be a function', shown(clock))
    this.#maxTrackedCallers = maxTrackedCallers
    this.#clock = clock
  }

  acquire (callerKey: string, limit: number): Acquisition {
    const now = this.#clock()
    this.#sweepWhenDue(now)
    const own = this.#counters.get(callerKey) ?? this.#track(callerKey, now)
    const counter = own ?? (this.#overflow ??= new Counter(now))
    const admitted = counter.acquire(now, limit)
    return { admitted, count: counter.count, windowRemaining: counter.windowRemaining(now), overflow: own === undefined }
  }

  clearCounters (): void {
    this.#counters.clear()
    this.#overflow = undefined
    this.#previousSweep = undefined
    this.#sweeps = 0
  }

  inspect (): QuotaStoreState {
    return { trackedCallers: this.#counters.size, sweeps: this.#sweeps }
  }

  #track (callerKey: string, now: number): Counter | undefined {
    if (this.#counters.size >= this.#maxTrackedCallers) return undefined
    const counter = new Counter(now)
    this.#counters.set(callerKey, counter)
    return counter
  }

  #sweepWhenDue (now: number): void {
    // The first request starts the interval: before it there is nothing to remove.
    this.#previousSweep ??= now
    if (now - this.#previousSweep < sweepInterval) return
    this.#previousSweep = now
    this.#sweeps += 1
    for (const [callerKey, counter] of this.#counters) {
      if (now - counter.lastSeen >= counterRetention) this.#counters.delete(callerKey)
    }
  }
}
