/** Options of `CircuitBreaker`. */
interface CircuitBreakerOptions {
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
  #isOpen = false
  #failedAt = 0
  #isBeingTried = false
  // Counts the changes, so that the result of a call from before the latest change is ignored.
  #phase = 0

  constructor (options: CircuitBreakerOptions) {
    this.#options = options
  }

  get isOpen (): boolean {
    return this.#isOpen
  }

  /**
   * Returns the phase in which a call begins, with which its result is recorded; undefined if there
   * may be no call now. If the breaker is open, the call is the trial.
   */
  startCall (): number | undefined {
    if (this.#isOpen) {
      const rested = this.#options.clock() - this.#failedAt
      // A clock that was set back must not lengthen the time `coolDown`.
      if (this.#isBeingTried || (rested >= 0 && rested < this.#options.coolDown)) return undefined
      this.#isBeingTried = true
    }
    return this.#phase
  }

  succeeded (phase: number): void {
    if (phase !== this.#phase || !this.#isOpen) return
    this.#change(false)
  }

  failed (phase: number, error: unknown): void {
    if (phase !== this.#phase) return
    this.#failedAt = this.#options.clock()
    this.#isBeingTried = false
    if (!this.#isOpen) this.#change(true, error)
  }

  /**
   * Records a result that shows neither that calls fail nor that they succeed again. The next
   * request may try.
   */
  inconclusive (phase: number): void {
    if (phase === this.#phase) this.#isBeingTried = false
  }

  #change (isOpen: boolean, error?: unknown): void {
    this.#isOpen = isOpen
    this.#isBeingTried = false
    this.#phase += 1
    this.#options.onChange(isOpen, error)
  }
}
