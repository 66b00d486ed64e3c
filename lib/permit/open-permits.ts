/** How long a server that closes waits for stores that do not answer, in milliseconds. */
const longestSilence = 1000

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
  /** Runs when something is no longer pending. */
  #onSettled = (): void => {}

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
      this.#onSettled()
    }
    promise.then(settled, settled)
  }

  /**
   * Ends all permits, and waits until everything is settled, for as long as stores go on answering:
   * it gives up when none has answered for a second. The process stays alive until then.
   */
  async endAll (): Promise<void> {
    this.#isClosing = true
    for (const permit of this.#permits) this.wait(permit.expire())
    if (this.#pending.size === 0) return
    await new Promise<void>((resolve) => {
      const silence = setTimeout(resolve, longestSilence)
      this.#onSettled = () => {
        if (this.#pending.size > 0) {
          silence.refresh()
        } else {
          clearTimeout(silence)
          resolve()
        }
      }
    })
  }
}
