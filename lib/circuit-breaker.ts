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
 * Decides whether something that can fail is called. It is called until it fails, which opens the breaker. Then it is not called for the
 * time `coolDown`, after which one request at a time tries it again until one succeeds, which closes the breaker.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  isOpen = false
  #openSince = 0
  #isBeingTried = false
  #failuresInARow = 0
  /** Counts the changes, so that the result of a call from before the latest change is ignored. */
  era = 0

  constructor (options: CircuitBreakerOptions) {
    this.#options = options
  }

  /** Whether there may be a call now. If the breaker is open and the result is true, the call is the trial. */
  allowsCall (): boolean {
    if (!this.isOpen) return true
    const rested = this.#options.clock() - this.#openSince
    // A clock that was set back must not lengthen the time `coolDown`.
    if (this.#isBeingTried || (rested >= 0 && rested < this.#options.coolDown)) return false
    this.#isBeingTried = true
    return true
  }

  /** Records that a call of this era succeeded. */
  succeeded (era: number): void {
    if (era !== this.era) return
    this.#failuresInARow = 0
    if (this.isOpen) this.#change(undefined)
  }

  /** Records that a call showed neither a failure nor that the next one will succeed. The next request may try. */
  provedNothing (): void {
    this.#isBeingTried = false
  }

  /** Records that a call of this era failed. */
  failed (era: number, error: unknown): void {
    if (era !== this.era) return
    const { clock, failures = 1 } = this.#options
    this.#openSince = clock()
    this.#isBeingTried = false
    this.#failuresInARow += 1
    if (!this.isOpen && this.#failuresInARow >= failures) this.#change(error)
  }

  #change (error: unknown): void {
    this.isOpen = !this.isOpen
    this.era += 1
    this.#isBeingTried = false
    this.#failuresInARow = 0
    this.#options.onChange(this.isOpen, error)
  }
}
