import type { QuotaTimers } from '../time-limit.js'

/**
 * A monotonic clock for tests that advances only when `advance` is called: `new MemoryQuotaStore({
 * clock: clock.now })`. Its timers run while it advances: `new InsuredQuotaStore({ primary, clock:
 * clock.now, timers: clock })`. `now` and the functions of timers are bound.
 */
export class VirtualClock implements QuotaTimers {
  // In the order in which they become due.
  #timers: readonly { readonly due: number; readonly callback: () => void }[] = []
  #time = 0

  /** Returns the time in milliseconds. */
  readonly now = (): number => this.#time

  readonly setTimeout = (callback: () => void, delay: number): unknown => {
    const timer = { due: this.#time + delay, callback }
    this.#timers = [...this.#timers, timer].sort((one, other) => one.due - other.due)
    return timer
  }

  readonly clearTimeout = (timer: unknown): void => {
    this.#timers = this.#timers.filter((each) => each !== timer)
  }

  /**
   * Advances the clock and runs each timer that becomes due at its own time.
   *
   * @param ms Milliseconds, 0 or more.
   * @throws {RangeError} If `ms` is negative or not a finite number.
   */
  advance (ms: number): void {
    if (!Number.isFinite(ms) || ms < 0) {
      throw new RangeError(`ms must be a finite number of 0 or more; got ${ms}`)
    }
    const end = this.#time + ms
    for (let [next] = this.#timers; next !== undefined && next.due <= end; [next] = this.#timers) {
      this.#time = next.due
      this.clearTimeout(next)
      next.callback()
    }
    this.#time = end
  }
}
