import { QuotaLog } from './quota-log.js'

// How long to wait for stores when the server closes, in milliseconds.
const longestWait = 1000

/** What a server has to settle, and the steps of stores that nobody else waits for. */
export class Ledger {
  readonly log = new QuotaLog()
  /** The permits that have not ended. */
  readonly open = new Set<{ end(): unknown }>()
  readonly #pending = new Set<Promise<void>>()

  /**
   * Returns a step of a request or of stores. If it is a promise, the server waits for it when it
   * closes.
   */
  track<Result>(step: Result | Promise<Result>): Result | Promise<Result> {
    if (step instanceof Promise) {
      const ended = (): void => {
        this.#pending.delete(pending)
      }
      const pending = step.then(ended, ended)
      this.#pending.add(pending)
    }
    return step
  }

  /**
   * Ends all permits, and waits until everything is settled, but no longer than a second. The
   * process stays alive until then.
   */
  async settle (): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, longestWait)
    })
    await Promise.race([this.#settleAll(), timeout])
    clearTimeout(timer)
  }

  async #settleAll (): Promise<void> {
    while (this.open.size + this.#pending.size > 0) {
      for (const permit of this.open) permit.end()
      await Promise.all(this.#pending)
    }
  }
}
