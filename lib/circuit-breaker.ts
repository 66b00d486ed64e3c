/** Options of `CircuitBreaker`. */
interface CircuitBreakerOptions {
  /** How many calls in a row must fail to open the breaker. Default 1. */
  readonly failures?: number
  /** How long there are no calls after a failure, in milliseconds. */
  readonly coolDown: number
  /** Returns monotonic milliseconds. */
  readonly clock: () => number
  /** Called once for each change. The error is the one that opened the breaker, or undefined. */
  readonly onChange: (isOpen: boolean, error: unknown) => void
}

/**
 * Decides whether something that can fail is called. It is called until it fails, which opens the
 * breaker. Then it is not called for the time `coolDown`, after which one request at a time tries
 * it again until one succeeds, which closes the breaker.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  #failuresInARow = 0
  #failedAt = 0
  #isBeingTried = false
  // Counts the changes, so that the result of a call from before the latest change is ignored.
  #phase = 0

  constructor (options: CircuitBreakerOptions) {
    this.#options = options
  }

  get isOpen (): boolean {
    return this.#failuresInARow >= (this.#options.failures ?? 1)
  }

  /**
   * Returns the phase in which a call begins, with which its result is recorded; undefined if there
   * may be no call now. If the breaker is open, the call is the trial.
   */
  startCall (): number | undefined {
    if (this.isOpen) {
      const rested = this.#options.clock() - this.#failedAt
      // A clock that was set back must not lengthen the time `coolDown`.
      if (this.#isBeingTried || (rested >= 0 && rested < this.#options.coolDown)) return undefined
      this.#isBeingTried = true
    }
    return this.#phase
  }

  succeeded (phase: number): void {
    this.#record(phase, 0)
  }

  failed (phase: number, error: unknown): void {
    if (phase === this.#phase) this.#failedAt = this.#options.clock()
    this.#record(phase, this.#failuresInARow + 1, error)
  }

  /**
   * Records a result that shows neither that calls fail nor that they succeed again. The next
   * request may try.
   */
  inconclusive (phase: number): void {
    if (phase === this.#phase) this.#isBeingTried = false
  }

  #record (phase: number, failuresInARow: number, error?: unknown): void {
    if (phase !== this.#phase) return
    const wasOpen = this.isOpen
    this.#failuresInARow = failuresInARow
    this.#isBeingTried = false
    if (this.isOpen === wasOpen) return
    this.#phase += 1
    this.#options.onChange(this.isOpen, error)
  }
}
