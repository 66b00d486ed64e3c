import { TimeLimitError } from '../../time-limit.js'

// Bounds how long a call keeps the server busy, and how many decisions fail together.
const mostInCall = 128

/**
 * How long a call may take, in milliseconds, because a connection can become silent without
 * closing, and how long an item may wait.
 */
export const longestWait = 5_000

/** What waits for the next call of one kind. */
export class Queue<Item, Result> {
  // `asked` is how often the item was sent before.
  readonly waiting: {
    item: Item
    since: number
    asked: number
    resolve(result: Result): void
    reject(error: unknown): void
  }[] = []

  add (item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ item, since: performance.now(), asked: 0, resolve, reject })
    })
  }

  /**
   * Sends what goes into the next call. What has waited for too long is rejected: its request has
   * got its response without it.
   *
   * @param call Sends items that were all sent before as often. Returns a result for each;
   *   undefined for one that must be sent again.
   */
  async send (
    call: (items: readonly Item[], asked: number) => Promise<readonly (Result | undefined)[]>
  ): Promise<void> {
    const asked = this.waiting[0]?.asked ?? 0
    // Requests that were sent before share no call with others, because they can take the server
    // longer.
    const other = this.waiting.findIndex((each) => each.asked !== asked)
    const earliest = performance.now() - longestWait
    const batch = this.waiting
      .splice(0, other === -1 ? mostInCall : Math.min(other, mostInCall))
      .filter(({ since, reject }) => {
        if (since < earliest) reject(new TimeLimitError(longestWait))
        return since >= earliest
      })
    if (batch.length === 0) return
    try {
      const results = await call(
        batch.map(({ item }) => item),
        asked
      )
      batch.forEach((each, index) => {
        const result = results[index]
        if (result === undefined) this.waiting.push({ ...each, asked: asked + 1 })
        else each.resolve(result)
      })
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }
}
