/**
 * A monotonic clock for tests that advances only when `advance` is called: `new MemoryQuotaStore({ clock: clock.now })`. Its timers
 * run while it advances: `new InsuredQuotaStore({ primary, clock: clock.now, timers: clock })`.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore } from 'fastify-llm-quota'
 * import { VirtualClock } from 'fastify-llm-quota/testing'
 *
 * const clock = new VirtualClock()
 * const store = new MemoryQuotaStore({ clock: clock.now })
 * const demand = { counters: 'default', callerKey: 'a digest', limit: 1, cost: 1, window: 60_000, end: null }
 * const admits = () => store.acquire([demand])[0]?.admitted
 * console.log(admits(), admits()) // true false
 * clock.advance(60_000)
 * console.log(admits()) // true
 * ```
 */
export class VirtualClock {
  readonly #timers = new Set<{ readonly due: number, readonly callback: () => void }>()
  #time = 0

  /** Returns the time in milliseconds. The function is bound. */
  readonly now = (): number => this.#time

  /**
   * Calls a function once, when the clock advances to the end of the delay or past it. The function is bound.
   *
   * @param delay Milliseconds.
   * @returns The timer, for `clearTimeout`.
   */
  readonly setTimeout = (callback: () => void, delay: number): unknown => {
    const timer = { due: this.#time + delay, callback }
    this.#timers.add(timer)
    return timer
  }

  /** Cancels a timer. Does nothing if it has already run. The function is bound. */
  readonly clearTimeout = (timer: unknown): void => { for (const each of this.#timers) if (each === timer) this.#timers.delete(each) }

  /**
   * Advances the clock and runs each timer that becomes due at its own time.
   *
   * @param ms Milliseconds, 0 or more.
   * @throws {RangeError} If `ms` is negative or not a finite number.
   */
  advance (ms: number): void {
    if (!Number.isFinite(ms) || ms < 0) throw new RangeError(`ms must be a finite number of 0 or more; got ${ms}`)
    const end = this.#time + ms
    const findNext = () => [...this.#timers].filter(({ due }) => due <= end).sort((one, other) => one.due - other.due)[0]
    for (let next = findNext(); next !== undefined; next = findNext()) {
      this.#time = next.due
      this.#timers.delete(next)
      next.callback()
    }
    this.#time = end
  }
}
