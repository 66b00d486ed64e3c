import { TimeLimitError } from './errors.js'

/** The timers of a time limit. `VirtualClock` and `node:timers` have these functions. */
export interface QuotaTimers {
  /**
   * Calls a function once after a delay.
   *
   * @param delay Milliseconds, not necessarily an integer.
   * @returns The timer, for `clearTimeout`.
   */
  setTimeout(callback: () => void, delay: number): unknown
  /** Cancels a timer. */
  clearTimeout(timer: unknown): void
}

/** Node's timers, unreferenced so that a time limit does not keep the process alive. */
export const nodeTimers = {
  setTimeout: (callback: () => void, delay: number): NodeJS.Timeout =>
    setTimeout(callback, delay).unref(),
  clearTimeout (timer: NodeJS.Timeout): void {
    clearTimeout(timer)
  }
} satisfies QuotaTimers

// A time limit is measured in ten parts, each with a timer of its own. A stall of the event loop
// delays one timer, so it counts as one part, however long it is.
const partsOfLimit = 10

// The shortest delay of Node's timers, in milliseconds.
const shortestDelay = 1

// A timer that runs after a stall of the event loop runs before the sockets are read. A reply that
// has arrived by then reaches its reader in one turn of the event loop, or in a few if it passes
// through TLS or a proxy in the same process.
const graceTurns = 5

/** Calls a function once after a time that passes only while the event loop runs. */
export class TimeLimit {
  readonly #delay: number
  readonly #parts: number
  readonly #onExpired: () => void
  readonly #timers: QuotaTimers
  #timer: unknown
  #turn: NodeJS.Immediate | undefined

  /** @param timeout Milliseconds. */
  constructor (timeout: number, onExpired: () => void, timers: QuotaTimers = nodeTimers) {
    this.#delay = Math.max(shortestDelay, timeout / partsOfLimit)
    this.#parts = Math.max(1, Math.round(timeout / this.#delay))
    this.#onExpired = onExpired
    this.#timers = timers
  }

  /** Begins the time, again if it runs already. */
  start (): void {
    this.stop()
    this.#waitFor(this.#parts)
  }

  stop (): void {
    this.#timers.clearTimeout(this.#timer)
    clearImmediate(this.#turn)
  }

  #waitFor (parts: number): void {
    this.#timer = this.#timers.setTimeout(() => {
      if (parts > 1) this.#waitFor(parts - 1)
      else this.#expireAfter(graceTurns)
    }, this.#delay)
  }

  #expireAfter (turns: number): void {
    if (turns === 0) {
      this.#onExpired()
      return
    }
    this.#turn = setImmediate(() => {
      this.#expireAfter(turns - 1)
    })
  }
}

interface TimeoutOptions {
  readonly timers?: QuotaTimers
}

/**
 * Settles as the promise does, or rejects with a `TimeLimitError` after the milliseconds, not
 * counting stalls of the event loop.
 */
export function withTimeout<Result> (
  timeout: number,
  promise: PromiseLike<Result>,
  { timers = nodeTimers }: TimeoutOptions = {}
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const limit = new TimeLimit(
      timeout,
      () => {
        // Has no effect on a promise that has settled by then.
        reject(new TimeLimitError(timeout))
      },
      timers
    )
    limit.start()
    // A thenable can be fulfilled with another promise.
    Promise.resolve(promise).then(
      (result) => {
        limit.stop()
        resolve(result)
      },
      (error) => {
        limit.stop()
        reject(error)
      }
    )
  })
}
