/** How long a server that closes waits for stores that do not answer, in milliseconds. */
const longestSilence = 1000

/** A permit that has not ended. */
interface OpenPermit {
  /** Never rejects. */
  end(): Promise<void>
}

/** The permits of a server that have not ended, and what stores have yet to answer. */
export class Closing {
  readonly #permits = new Set<OpenPermit>()
  readonly #pending = new Set<Promise<unknown>>()
  #isClosing = false

  add (permit: OpenPermit): void {
    // A decision that was made while the server closed.
    if (this.#isClosing) this.waitFor(permit.end())
    else this.#permits.add(permit)
  }

  delete (permit: OpenPermit): void {
    this.#permits.delete(permit)
  }

  /** Makes a server that closes wait for a promise, whose rejection is the caller's to handle. */
  waitFor (promise: Promise<unknown>): void {
    this.#pending.add(promise)
    const settled = (): void => {
      this.#pending.delete(promise)
    }
    promise.then(settled, settled)
  }

  /**
   * Ends all permits, and waits until everything that has begun is settled, for as long as stores
   * go on answering: it gives up when none has answered for a second. The process stays alive until
   * then.
   */
  async endAll (): Promise<void> {
    this.#isClosing = true
    for (const permit of this.#permits) this.waitFor(permit.end())
    const begun = new Set(this.#pending)
    await allSettledOrSilent(begun)
    // What it has led to, such as the settlement of a decision. What begins later is not waited
    // for: a worker of a queue that the host stops afterwards would keep the server from closing.
    await allSettledOrSilent(new Set([...this.#pending].filter((promise) => !begun.has(promise))))
  }
}

/** Resolves when all promises have settled, or when none of them has for `longestSilence`. */
async function allSettledOrSilent (promises: ReadonlySet<Promise<unknown>>): Promise<void> {
  if (promises.size === 0) return
  await new Promise<void>((resolve) => {
    let left = promises.size
    const silence = setTimeout(() => {
      // What is answered later starts the timer again, which must not keep the process alive.
      silence.unref()
      resolve()
    }, longestSilence)
    const settled = (): void => {
      left -= 1
      if (left > 0) {
        silence.refresh()
      } else {
        clearTimeout(silence)
        resolve()
      }
    }
    for (const promise of promises) promise.then(settled, settled)
  })
}
