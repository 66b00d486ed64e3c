import { required } from '../required.js'

/** How long a server that closes waits for stores that do not answer, in milliseconds. */
const longestSilence = 1000

/** A permit that has not ended. */
export interface OpenPermit {
  /** Where `Closing` lists it; undefined if it does not. */
  position: number | undefined
  /** Never rejects. */
  end(): Promise<void>
}

/**
 * The permits of a server that have not ended, and what stores have yet to answer.
 *
 * Neither is a set. Of a set that changes with each request, V8 keeps alive what it has ever
 * contained until the next major garbage collection, because each table of the set refers to the
 * one that has replaced it: on Redis, a request took a quarter more CPU time.
 */
export class Closing {
  readonly #permits: OpenPermit[] = []
  #pending = new Pending()
  #isClosing = false
  #hasBegun = false

  /** Whether the server has begun to close, so that no request waits for room any more. */
  get hasBegun (): boolean {
    return this.#hasBegun
  }

  /** The server begins to close. */
  begin (): void {
    this.#hasBegun = true
  }

  add (permit: OpenPermit): void {
    // A decision that was made while the server closed.
    if (this.#isClosing) this.waitFor(permit.end())
    else permit.position = this.#permits.push(permit) - 1
  }

  delete (permit: OpenPermit): void {
    const { position } = permit
    if (position === undefined) return
    permit.position = undefined
    const last = required(this.#permits.pop(), 'the last permit')
    if (last === permit) return
    this.#permits[position] = last
    last.position = position
  }

  /** Makes a server that closes wait for a promise, whose rejection is the caller's to handle. */
  waitFor (promise: PromiseLike<unknown>): void {
    this.#pending.add(promise)
  }

  /**
   * Ends all permits, and waits until everything that has begun is settled, for as long as stores
   * go on answering: it gives up when none has answered for a second. The process stays alive until
   * then.
   */
  async endAll (): Promise<void> {
    this.#isClosing = true
    for (const permit of [...this.#permits]) this.waitFor(permit.end())
    await this.#settled()
    // What it has led to, such as the settlement of a decision. What begins later is not waited
    // for: a worker of a queue that the host stops afterwards would keep the server from closing.
    await this.#settled()
  }

  /** Waits for what has begun until now. */
  async #settled (): Promise<void> {
    const begun = this.#pending
    this.#pending = new Pending()
    await begun.settledOrSilent()
  }
}

/** Promises that a server that closes waits for. */
class Pending {
  #left = 0
  #onSettled: (() => void) | undefined

  add (promise: PromiseLike<unknown>): void {
    this.#left += 1
    const settled = (): void => {
      this.#left -= 1
      this.#onSettled?.()
    }
    promise.then(settled, settled)
  }

  /** Resolves when all have settled, or when none of them has for `longestSilence`. */
  async settledOrSilent (): Promise<void> {
    if (this.#left === 0) return
    await new Promise<void>((resolve) => {
      const silence = setTimeout(resolve, longestSilence)
      this.#onSettled = () => {
        silence.refresh()
        if (this.#left > 0) return
        clearTimeout(silence)
        resolve()
      }
    })
    // What is answered later must not start the timer again, which would keep the process alive.
    this.#onSettled = undefined
  }
}
