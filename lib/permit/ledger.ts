import { QuotaLog } from './quota-log.js'

// How long to wait for stores when the server closes, in milliseconds.
const longestWait = 1000

/** What is to be settled at the end. */
interface Unsettled { end (): void | Promise<void> }

/** What a server has to settle, and the steps of stores that nobody else waits for. */
export class Ledger {
  readonly log = new QuotaLog()
  readonly #open = new Set<Unsettled>()
  readonly #pending = new Set<Promise<void>>()

  /** Keeps something until it ends. */
  opened (unsettled: Unsettled): void {
    this.#open.add(unsettled)
  }

  ended (unsettled: Unsettled): void {
    this.#open.delete(unsettled)
  }

  /** Returns a step of a request or of stores. If it is a promise, the server waits for it when it closes. */
  track<Result> (step: Result | Promise<Result>): Result | Promise<Result> {
    if (step instanceof Promise) {
      const ended = (): void => { this.#pending.delete(pending) }
      const pending = step.then(ended, ended)
      this.#pending.add(pending)
    }
    return step
  }

  /** Ends all permits, and waits until everything is settled, but no longer than a second. */
  async settle (): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<void>((resolve) => { timer = setTimeout(resolve, longestWait) })
    await Promise.race([this.#settleAll(), timeout])
    clearTimeout(timer)
  }

  async #settleAll (): Promise<void> {
    while (this.#open.size + this.#pending.size > 0) {
      for (const permit of this.#open) permit.end()
      await Promise.all(this.#pending)
    }
  }
}
