/** How often a server that closes looks whether stores still answer, in milliseconds. */
const interval = 1000

/** A permit that has not ended. */
interface OpenPermit {
  /** Ends it, because the host has not. Never rejects. */
  expire(): Promise<void>
}

/** The permits of a server that have not ended, and what stores have yet to answer. */
export class OpenPermits {
  readonly #permits = new Set<OpenPermit>()
  readonly #pending = new Set<Promise<unknown>>()
  #isClosing = false
  /** How many promises have settled. */
  #answered = 0
  #whenNothingIsPending = (): void => {}

  add (permit: OpenPermit): void {
    // A decision that was made while the server closed.
    if (this.#isClosing) this.wait(permit.expire())
    else this.#permits.add(permit)
  }

  delete (permit: OpenPermit): void {
    this.#permits.delete(permit)
  }

  /** Makes a server that closes wait for a promise, whose rejection is the caller's to handle. */
  wait (promise: Promise<unknown>): void {
    this.#pending.add(promise)
    const settled = (): void => {
      this.#pending.delete(promise)
      this.#answered += 1
      if (this.#pending.size === 0) this.#whenNothingIsPending()
    }
    promise.then(settled, settled)
  }

  /**
   * Ends all permits, and waits until everything is settled, for as long as stores go on answering:
   * it gives up when none has answered since it last looked, which is after a second if none ever
   * does, and otherwise after less than two. The process stays alive until then.
   */
  async endAll (): Promise<void> {
    this.#isClosing = true
    for (const permit of this.#permits) this.wait(permit.expire())
    let answeredBefore = -1
    while (this.#pending.size > 0 && this.#answered > answeredBefore) {
      answeredBefore = this.#answered
      await this.#nothingPendingOrSilence()
    }
  }

  /** Resolves when nothing is pending, at the latest after `interval`. */
  async #nothingPendingOrSilence (): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, interval)
      this.#whenNothingIsPending = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}
