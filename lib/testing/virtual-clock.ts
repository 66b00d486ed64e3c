/**
 * Monotonic time that passes only when it is told to, for tests: `new MemoryQuotaStore({ clock: clock.now })`.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore } from 'fastify-llm-quota'
 * import { VirtualClock } from 'fastify-llm-quota/testing'
 *
 * const clock = new VirtualClock()
 * const store = new MemoryQuotaStore({ clock: clock.now })
 * console.log(store.acquire('a digest', 1).admitted, store.acquire('a digest', 1).admitted) // true false
 * clock.advance(60_000)
 * console.log(store.acquire('a digest', 1).admitted) // true
 * ```
 */
export class VirtualClock {
  #time = 0

  /** The time in milliseconds. It is bound, and so can be handed on by itself. */
  readonly now = (): number => this.#time

  /**
   * Lets time pass.
   *
   * @param ms Milliseconds, not negative.
   * @throws {RangeError} When it is no such number.
   */
  advance (ms: number): void {
    if (!Number.isFinite(ms) || ms < 0) throw new RangeError(`time advances by a number of milliseconds that is not negative; got ${ms}`)
    this.#time += ms
  }
}
