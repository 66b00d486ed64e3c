/**
 * How long a request may take, in milliseconds, its time in the queue included, because a
 * connection can become silent without closing.
 */
export const longestWait = 5_000

/** How many settlements, and how many freed places, can wait while the server fails. */
export const mostWaiting = 10_000

/** An item that waits for its call. */
export class Waiting<Item, Result = void> {
  /** Settles when the item's call has ended. */
  readonly done: Promise<Result>
  resolve: (result: Result) => void = () => {}
  reject: (error: unknown) => void = () => {}

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
