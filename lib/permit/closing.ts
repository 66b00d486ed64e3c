import { TimeLimit, type QuotaTimers } from '../time-limit.js'
import { UnorderedList, type Listed } from '../unordered-list.js'

/** How long a server that closes waits for stores that do not answer, in milliseconds. */
const longestSilence = 1000

/** Timers that keep the process alive. */
const lastingTimers = {
  setTimeout: (callback: () => void, delay: number): NodeJS.Timeout => setTimeout(callback, delay),
  clearTimeout (timer: NodeJS.Timeout): void {
    clearTimeout(timer)
  }
} satisfies QuotaTimers

/** A permit that has not ended. */
export interface OpenPermit extends Listed {
  /** Never rejects. */
  end(): Promise<void>
}

/** The permits of a server that have not ended, and what stores have yet to answer. */
export class Closing {
  readonly #permits = new UnorderedList<OpenPermit>()
  #pending = new Pending()
  #isEndingAll = false
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
    if (this.#isEndingAll) this.waitFor(permit.end())
    else this.#permits.add(permit)
  }

  delete (permit: OpenPermit): void {
    this.#permits.delete(permit)
  }

  /** Makes a server that closes wait for a promise, whose rejection is the caller's to handle. */
  waitFor (promise: PromiseLike<unknown>): void {
    this.#pending.add(promise)
  }

  /**
   * Ends all permits, and waits until stores have settled everything that has begun. Gives up when
   * none has answered for a second, not counting stalls of the event loop: to end many permits can
   * take that long. The process stays alive until then.
   *
   * @returns Whether everything is settled.
   */
  async endAll (): Promise<boolean> {
    this.#isEndingAll = true
    for (const permit of this.#permits.all()) this.waitFor(permit.end())
    if (!await this.#settled()) return false
    // What it has led to, such as the settlement of a decision. What begins later is not waited
    // for: a worker of a queue that the host stops afterwards would keep the server from closing.
    return await this.#settled()
  }

  /** Waits for what has begun until now. Returns whether it is settled. */
  async #settled (): Promise<boolean> {
    const begun = this.#pending
    this.#pending = new Pending()
    return await begun.settledOrSilent()
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

  /**
   * Resolves when all have settled, or when none of them has for `longestSilence`. Returns whether
   * all have settled.
   */
  async settledOrSilent (): Promise<boolean> {
    if (this.#left === 0) return true
    await new Promise<void>((resolve) => {
      const silence = new TimeLimit(longestSilence, resolve, lastingTimers)
      silence.start()
      this.#onSettled = () => {
        if (this.#left > 0) {
          silence.start()
          return
        }
        silence.stop()
        resolve()
      }
    })
    // What is answered later must not start the time again, which would keep the process alive.
    this.#onSettled = undefined
    return this.#left === 0
  }
}
