/** Monotonic time that passes only when it is told to, for tests: `new MemoryQuotaStore({ clock: clock.now })`. */
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
