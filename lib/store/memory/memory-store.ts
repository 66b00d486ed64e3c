import { Counter } from './counter.js'
import { OptionError, shown } from './errors.js'
import { assertMaxTrackedCallers, defaultMaxTrackedCallers } from './overflow.js'
import type { Acquisition, QuotaStore, QuotaStoreState } from './store.js'
import { counterRetention, sweepInterval } from './sweep.js'

const never = -Infinity
const clearedAwayAtOnce = 1_000

/**
 * What a `MemoryQuotaStore` can be told.
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
  readonly #counters = new Map<string, Counter>()
  #overflow: Counter | undefined
  #sweptAt = never
  #sweeps = 0
  #notClearedAway: MapIterator<[string, Counter]> | undefined

  constructor ({ maxTrackedCallers = defaultMaxTrackedCallers, clock = () => performance.now() }: MemoryQuotaStoreOptions = {}) {
    assertMaxTrackedCallers(maxTrackedCallers)
    if (typeof clock !== 'function') throw new OptionError('clock', 'must be a function', shown(clock))
    this.#maxTrackedCallers = maxTrackedCallers
    this.#clock = clock
  }

  acquire (callerKey: string, limit: number): Acquisition {
    const now = this.#clock()
    this.#sweepWhenDue(now)
    const own = this.#find(callerKey) ?? this.#track(callerKey, now)
    const counter = own ?? (this.#overflow ??= new Counter(now))
    const admitted = counter.acquire(now, limit)
    return { admitted, count: counter.count, windowRemaining: counter.windowRemaining(now), overflow: own === undefined }
  }

  clearCounters (): void {
    this.#counters.clear()
    this.#overflow = undefined
    this.#sweptAt = never
    this.#sweeps = 0
    this.#notClearedAway = undefined
  }

  inspect (): QuotaStoreState {
    const swept = this.#notClearedAway === undefined ? 0 : [...this.#counters.values()].filter((counter) => this.#isSwept(counter)).length
    return { trackedCallers: this.#counters.size - swept, sweeps: this.#sweeps }
  }

  #find (callerKey: string): Counter | undefined {
    const counter = this.#counters.get(callerKey)
    return counter === undefined || this.#isSwept(counter) ? undefined : counter
  }

  #track (callerKey: string, now: number): Counter | undefined {
    this.#counters.delete(callerKey)
    while (this.#counters.size >= this.#maxTrackedCallers) {
      if (this.#notClearedAway === undefined) return undefined
      this.#clearAway()
    }
    const counter = new Counter(now)
    this.#counters.set(callerKey, counter)
    return counter
  }

  #sweepWhenDue (now: number): void {
    // The first request starts the interval: before it there is nothing to remove.
    if (this.#sweptAt === never) this.#sweptAt = now
    if (now - this.#sweptAt >= sweepInterval) {
      this.#sweptAt = now
      this.#sweeps += 1
      this.#notClearedAway = this.#counters.entries()
    }
    if (this.#notClearedAway !== undefined) this.#clearAway()
  }

  /** Whether the latest sweep removed a counter, be it that it still lies about. */
  #isSwept (counter: Counter): boolean {
    return this.#sweptAt - counter.lastSeen >= counterRetention
  }

  // A sweep removes counters at once, by their last request alone; from memory they go a few with each request, so that
  // no request waits for a great many.
  #clearAway (): void {
    for (let looked = 0; looked < clearedAwayAtOnce; looked++) {
      const next = this.#notClearedAway?.next()
      if (next === undefined || next.done === true) {
        this.#notClearedAway = undefined
        return
      }
      const [callerKey, counter] = next.value
      if (this.#isSwept(counter)) this.#counters.delete(callerKey)
    }
  }
}
