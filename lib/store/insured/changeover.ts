import type { InsuredQuotaStoreState } from './changes.js'

/**
 * Decides which store is called. The primary is called until it fails. Then it is not called for the time `coolDown`, after which
 * one request at a time tries it again until one succeeds.
 */
export class Changeover {
  readonly #coolDown: number
  readonly #clock: () => number
  readonly #publish: (state: InsuredQuotaStoreState, error: unknown) => void
  #state: InsuredQuotaStoreState = 'primary'
  #restsSince = 0
  #isBeingTried = false
  // Counts the changes, so that an answer that was requested before the latest change is ignored.
  #era = 0

  /**
   * @param coolDown How long the primary is not called after a failure, in milliseconds.
   * @param publish Called once for each change.
   */
  constructor (coolDown: number, clock: () => number, publish: (state: InsuredQuotaStoreState, error: unknown) => void) {
    this.#coolDown = coolDown
    this.#clock = clock
    this.#publish = publish
  }

  get state (): InsuredQuotaStoreState {
    return this.#state
  }

  /** Identifies the period since the latest change. */
  get era (): number {
    return this.#era
  }

  /** Whether the request may call the primary. While the state is `fallback`, a return value of true starts a trial. */
  mayAskPrimary (): boolean {
    if (this.#state === 'primary') return true
    if (this.#isBeingTried || this.#isResting()) return false
    this.#isBeingTried = true
    return true
  }

  /** Records that the primary's server answered. */
  succeeded (era: number): void {
    if (era === this.#era && this.#state === 'fallback') this.#change('primary', undefined)
  }

  /**
   * Records that the primary answered from memory, which does not show whether its server is available. The next request may try it
   * again.
   */
  provedNothing (): void {
    this.#isBeingTried = false
  }

  /** Records that the primary failed or did not answer in time. */
  failed (era: number, error: unknown): void {
    if (era !== this.#era) return
    this.#restsSince = this.#clock()
    this.#isBeingTried = false
    if (this.#state === 'primary') this.#change('fallback', error)
  }

  #isResting (): boolean {
    const rested = this.#clock() - this.#restsSince
    // A clock that was set back must not lengthen the time `coolDown`.
    return rested >= 0 && rested < this.#coolDown
  }

  #change (state: InsuredQuotaStoreState, error: unknown): void {
    this.#state = state
    this.#era += 1
    this.#isBeingTried = false
    this.#publish(state, error)
  }
}
