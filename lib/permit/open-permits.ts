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

  add (permit: OpenPermit): void {
    // A decision that was made while the server closed.
    if (this.#isClosing) this.wait(permit.expire())
    else this.#permits.add(permit)
  }

  delete (permit: OpenPermit): void {
    this.#permits.delete(permit)
  }

  /** Takes a promise for which the server waits when it closes. It must handle its rejection. */
  wait (promise: Promise<unknown>): void {
    this.#pending.add(promise)
    const settled = (): void => {
      this.#pending.delete(promise)
    }
    promise.then(settled, settled)
  }

  /**
   * Ends all permits, and waits until everything that has begun is settled, for as long as stores
   * go on answering. The process stays alive until then.
   */
  async endAll (): Promise<void> {
    this.#isClosing = true
    for (const permit of this.#permits) this.wait(permit.expire())
    const begun = new Set(this.#pending)
    await settledOrSilent(begun)
    // What it has led to, such as the settlement of a decision. What begins later is not waited
    // for: a worker of a queue that the host stops afterwards would keep the server from closing.
    await settledOrSilent([...this.#pending].filter((promise) => !begun.has(promise)))
  }
}

/** Resolves when all promises have settled, or when none of them has for `longestSilence`. */
async function settledOrSilent (promises: Iterable<Promise<unknown>>): Promise<void> {
  const left = new Set(promises)
  const settling = [...left].map((promise) => {
    const settled = (): void => {
      left.delete(promise)
    }
    return promise.then(settled, settled)
  })
  const allSettled = Promise.all(settling)
  let leftBefore = Infinity
  while (left.size > 0 && left.size < leftBefore) {
    leftBefore = left.size
    await settledInTime(allSettled)
  }
}

/** Resolves when the promise is fulfilled, at the latest after `longestSilence`. */
async function settledInTime (settled: Promise<unknown>): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, longestSilence)
    settled.then(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}
