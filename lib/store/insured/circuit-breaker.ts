/**
 * Decides whether the primary is called. It is called until it fails, which opens the breaker. Then it is not called for the time
 * `coolDown`, after which one request at a time tries it again until one succeeds, which closes the breaker.
 */
export class CircuitBreaker {
  readonly #coolDown: number
  readonly #clock: () => number
  readonly #onChange: (isOpen: boolean, error: unknown) => void
  #isOpen = false
  #openSince = 0
  #isBeingTried = false
  // Counts the changes, so that an answer that was requested before the latest change is ignored.
  #era = 0

  /**
   * @param coolDown How long the primary is not called after a failure, in milliseconds.
   * @param onChange Called once for each change. The error is the one that opened the breaker, or undefined.
   */
  constructor (coolDown: number, clock: () => number, onChange: (isOpen: boolean, error: unknown) => void) {
    this.#coolDown = coolDown
    this.#clock = clock
    this.#onChange = onChange
  }

  get isOpen (): boolean {
    return this.#isOpen
  }

  /** Identifies the period since the latest change. */
  get era (): number {
    return this.#era
  }

  /** Whether a request may call the primary. If the breaker is open and the result is true, the request is the trial. */
  allowsCall (): boolean {
    if (!this.#isOpen) return true
    if (this.#isBeingTried || this.#isResting()) return false
    this.#isBeingTried = true
    return true
  }

  /** Records that the primary's server answered a call of this era. */
  succeeded (era: number): void {
    if (era === this.#era && this.#isOpen) this.#change(undefined)
  }

  /** Records an answer from memory, which does not show whether the primary's server is available. The next request may try it. */
  provedNothing (): void {
    this.#isBeingTried = false
  }

  /** Records that the primary failed, or did not answer in time, in a call of this era. */
  failed (era: number, error: unknown): void {
    if (era !== this.#era) return
    this.#openSince = this.#clock()
    this.#isBeingTried = false
    if (!this.#isOpen) this.#change(error)
  }

  #isResting (): boolean {
    const rested = this.#clock() - this.#openSince
    // A clock that was set back must not lengthen the time `coolDown`.
    return rested >= 0 && rested < this.#coolDown
  }

  #change (error: unknown): void {
    this.#isOpen = !this.#isOpen
    this.#era += 1
    this.#isBeingTried = false
    this.#onChange(this.#isOpen, error)
  }
}
