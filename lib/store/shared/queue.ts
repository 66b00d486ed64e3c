import { TimeLimitError } from '../../time-limit.js'

/**
 * How long a call may take, in milliseconds, because a connection can become silent without
 * closing, and how long a request may wait for its call.
 */
export const longestWait = 5_000

/** What waits for the next call. */
export interface Waiting<Item, Result> {
  readonly item: Item
  /** The time of `performance.now()` from which on it is not sent any more. */
  readonly until: number
  resolve(result: Result): void
  reject(error: unknown): void
}

/** Items that wait for the next call, in their order. */
export class Queue<Item, Result> {
  readonly #capacity: number
  #waiting: Waiting<Item, Result>[] = []

  /** @param capacity How many can wait. The oldest one is rejected. */
  constructor (capacity = Infinity) {
    this.#capacity = capacity
  }

  get size (): number {
    return this.#waiting.length
  }

  /** Resolves when the item's call has ended. */
  add (item: Item, until: number): Promise<Result> {
    if (this.#waiting.length >= this.#capacity) {
      this.#waiting.shift()?.reject(new Error(`more than ${this.#capacity} wait for the server`))
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, until, resolve, reject })
    })
  }

  /** Removes the first items and returns them. What has waited for too long is rejected instead. */
  take (most: number): Waiting<Item, Result>[] {
    const now = performance.now()
    const taken: Waiting<Item, Result>[] = []
    let next = 0
    for (const waiting of this.#waiting) {
      if (taken.length === most) break
      next += 1
      if (waiting.until > now) taken.push(waiting)
      else waiting.reject(new TimeLimitError(longestWait))
    }
    this.#waiting = this.#waiting.slice(next)
    return taken
  }

  /** Puts items that must be sent again before all others. */
  putBack (waiting: readonly Waiting<Item, Result>[]): void {
    this.#waiting = [...waiting, ...this.#waiting]
  }
}
