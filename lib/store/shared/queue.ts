import { TimeLimitError } from '../../time-limit.js'

// Bounds how long a call keeps the server busy, and how many decisions fail together.
const mostInCall = 128

/** How long a call may take, in milliseconds, because a connection can become silent without being closed, and how long anything may wait for one. */
export const longestWait = 5_000

interface Waiting<Item, Result> {
  readonly item: Item
  readonly since: number
  /** How often it was sent before. */
  asked: number
  resolve (result: Result): void
  reject (error: unknown): void
}

/** What waits for the next call of one kind. */
export class Queue<Item, Result> {
  readonly #call: (items: readonly Item[], asked: number) => Promise<readonly (Result | undefined)[]>
  readonly #waiting: Waiting<Item, Result>[] = []

  /** @param call Sends items, which were all sent before as often. Returns a result for each; undefined for one that must be sent again. */
  constructor (call: (items: readonly Item[], asked: number) => Promise<readonly (Result | undefined)[]>) {
    this.#call = call
  }

  get isEmpty (): boolean {
    return this.#waiting.length === 0
  }

  add (item: Item): Promise<Result> {
    return new Promise((resolve, reject) => { this.#waiting.push({ item, since: performance.now(), asked: 0, resolve, reject }) })
  }

  /** Sends what goes into the next call. What has waited for too long is rejected: its request has got its response without it. */
  async send (): Promise<void> {
    const asked = this.#waiting[0]?.asked ?? 0
    // Requests that were sent before share no call with others, because they can take the server longer.
    const other = this.#waiting.findIndex((each) => each.asked !== asked)
    const earliest = performance.now() - longestWait
    const batch = this.#waiting.splice(0, other === -1 ? mostInCall : Math.min(other, mostInCall)).filter(({ since, reject }) => {
      if (since < earliest) reject(new TimeLimitError(longestWait))
      return since >= earliest
    })
    if (batch.length === 0) return
    try {
      const results = await this.#call(batch.map(({ item }) => item), asked)
      batch.forEach((each, index) => {
        const result = results[index]
        if (result === undefined) this.#waiting.push({ ...each, asked: asked + 1 })
        else each.resolve(result)
      })
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }
}
