// How many items share a statement at most.
const mostInBatch = 128

// An item that has waited for so long is not sent any more, in milliseconds: its request has been answered without it.
const longestWait = 5_000

/** What is sent: for a caller, at a time of the store's own clock, or null for the server's. */
interface Item { readonly callerKey: string, readonly time: number | null }

interface Waiting<Each, Result> { readonly item: Each, readonly since: number, resolve (result: Result): void, reject (error: unknown): void }

/** Sends items to the server. Those that arrive while a statement is in flight share the next one. */
export class Batches<Each extends Item, Result> {
  readonly #send: (items: readonly Each[]) => Promise<readonly (Result | undefined)[]>
  #waiting: Waiting<Each, Result>[] = []
  #isSending = false

  /** @param send Sends items, which are in the same order of callers in every process, and returns a result for each; undefined to send it again. */
  constructor (send: (items: readonly Each[]) => Promise<readonly (Result | undefined)[]>) {
    this.#send = send
  }

  add (item: Each): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, since: performance.now(), resolve, reject })
      if (!this.#isSending) this.#sendAll().catch(reject)
    })
  }

  async #sendAll (): Promise<void> {
    this.#isSending = true
    for (let batch = this.#next(); batch.length > 0; batch = this.#next()) {
      try {
        const results = await this.#send(batch.map(({ item }) => item))
        for (const [index, waiting] of batch.entries()) {
          const result = results[index]
          if (result === undefined) this.#waiting.push(waiting)
          else waiting.resolve(result)
        }
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
      // Requests that were answered together often send their next items in the same turn of the event loop.
      await new Promise((resolve) => { setImmediate(resolve) })
    }
    this.#isSending = false
  }

  /** Takes the items that share the next statement, which has one time. */
  #next (): Waiting<Each, Result>[] {
    const earliest = performance.now() - longestWait
    for (const { since, reject } of this.#waiting) if (since < earliest) reject(new Error(`no answer within ${longestWait} ms`))
    this.#waiting = this.#waiting.filter(({ since }) => since >= earliest)
    const otherTime = this.#waiting.findIndex(({ item }) => item.time !== this.#waiting[0]?.item.time)
    const batch = this.#waiting.splice(0, Math.min(mostInBatch, otherTime === -1 ? mostInBatch : otherTime))
    return batch.sort(({ item: one }, { item: other }) => Number(one.callerKey > other.callerKey) - Number(one.callerKey < other.callerKey))
  }
}
