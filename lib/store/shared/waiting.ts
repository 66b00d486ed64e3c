/**
 * How long a request waits in the queue at most, in milliseconds. Not the time of its call, too:
 * under lasting overload, a request waits for about as long before it is sent, and its call would
 * have no time left.
 */
export const longestQueueTime = 2_500

/**
 * How long a call takes at most, in milliseconds, because a connection can become silent without
 * closing.
 */
export const longestCallTime = 2_500

/** How long a request takes at most. */
export const longestWait = longestQueueTime + longestCallTime

/** How many settlements, and how many freed places, can wait while the server fails. */
export const mostWaiting = 10_000

/** An item that waits for its call. */
export class Waiting<Item, Result = void> {
  /** Settles when the item's call has ended. */
  readonly done: Promise<Result>
  declare resolve: (result: Result) => void
  declare reject: (error: unknown) => void

  /** @param until The time of `performance.now()` from which on the item is not sent any more. */
  constructor (
    public item: Item,
    readonly until: number
  ) {
    this.done = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }
}
