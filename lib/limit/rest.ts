/** How long a reader is not called after a timeout, in milliseconds. */
const length = 1000

/**
 * Prevents calls to a reader for one second after a timeout. Then one request calls it again, while the others do not wait for the
 * result, so an outage delays only one request per second.
 */
export class Rest {
  #until: number | undefined
  #asking = false

  /** Whether the current request may call the reader. */
  allows (): boolean {
    if (this.#until === undefined) return true
    if (this.#asking || performance.now() < this.#until) return false
    this.#asking = true
    return true
  }

  /** Records that the reader did not answer in time. */
  begin (): void {
    this.#until = performance.now() + length
    this.#asking = false
  }

  /** Records that the reader answered, successfully or not. */
  end (): void {
    this.#until = undefined
    this.#asking = false
  }
}
