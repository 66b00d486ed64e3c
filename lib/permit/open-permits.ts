import { QuotaLog } from './quota-log.js'

// How long to wait for stores when the server closes, in milliseconds.
const longestWait = 1000

/** A permit that has not ended. */
interface OpenPermit {
  /** Ends it, because the host has not. Never rejects. */
  expire(): Promise<void>
}

/** The permits of a server that have not ended, and what stores have yet to answer. */
export class OpenPermits {
  readonly log: QuotaLog
  readonly #permits = new Set<OpenPermit>()
  readonly #pending = new Set<Promise<unknown>>()
  #decisions = 0
  #whenDecided: (() => void) | undefined

  constructor (log: QuotaLog) {
    this.log = log
  }

  add (permit: OpenPermit): void {
    this.#permits.add(permit)
  }

  delete (permit: OpenPermit): void {
    this.#permits.delete(permit)
  }

  /** Notes that a request is being decided on. */
  startDecision (): void {
    this.#decisions += 1
  }

  /** Notes that a decision was made, after its permit was added. */
  endDecision (): void {
    this.#decisions -= 1
    if (this.#decisions === 0) this.#whenDecided?.()
  }

  /** Takes a promise for which the server waits when it closes. */
  readonly wait = (promise: Promise<unknown>): void => {
    const settled = (): void => {
      this.#pending.delete(promise)
    }
    this.#pending.add(promise)
    promise.then(settled, settled)
  }

  /**
   * Ends all permits, and waits until everything is settled, but no longer than a second. The
   * process stays alive until then.
   */
  async endAll (): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, longestWait)
    })
    await Promise.race([this.#settleAll(), timeout])
    clearTimeout(timer)
  }

  async #settleAll (): Promise<void> {
    while (this.#permits.size + this.#pending.size + this.#decisions > 0) {
      for (const permit of this.#permits) this.wait(permit.expire())
      await Promise.allSettled(this.#pending)
      await this.#allDecided()
    }
  }

  async #allDecided (): Promise<void> {
    if (this.#decisions === 0) return
    await new Promise<void>((resolve) => {
      this.#whenDecided = resolve
    })
  }
}
