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

// A timer that runs after a stall of the event loop runs before the sockets are read. A reply that
// has arrived by then reaches its reader in one turn of the event loop, or in a few if it passes
// through TLS or a proxy in the same process.
const graceTurns = 5

// A timer that is later than this part of its delay shows that the event loop stalled. A command
// may not have been sent before the stall, so its result gets the time again, but not without end.
const lateness = 0.5
const mostStalls = 3

/** A result did not arrive in time. */
export class TimeLimitError extends Error {
  /** @param timeout Milliseconds. */
  constructor (timeout: number) {
    super(`no response within ${timeout} ms`)
    this.name = 'TimeLimitError'
  }
}

/** Calls a function after the time limit, not counting stalls of the event loop. */
class TimeLimit {
  readonly #timeout: number
  readonly #clock: () => number
  readonly #timers: QuotaTimers
  readonly #onExpired: () => void
  #timer: unknown

  constructor (timeout: number, clock: () => number, timers: QuotaTimers, onExpired: () => void) {
    this.#timeout = timeout
    this.#clock = clock
    this.#timers = timers
    this.#onExpired = onExpired
  }

  start (stallsLeft = mostStalls): void {
    const startedAt = this.#clock()
    this.#timer = this.#timers.setTimeout(() => {
      const isLate = this.#clock() - startedAt > this.#timeout * (1 + lateness)
      if (isLate && stallsLeft > 0) this.start(stallsLeft - 1)
      else this.#expireAfter(graceTurns)
    }, this.#timeout)
  }

  stop (): void {
    this.#timers.clearTimeout(this.#timer)
  }

  #expireAfter (turns: number): void {
    if (turns === 0) {
      this.#onExpired()
      return
    }
    setImmediate(() => {
      this.#expireAfter(turns - 1)
    })
  }
}

interface TimeoutOptions<Result> {
  readonly clock?: () => number
  readonly timers?: QuotaTimers
  /** Receives a result that arrives after the time limit. Must not throw. */
  readonly late?: (result: Result) => void
}

/**
 * Settles as the promise does, or rejects with a `TimeLimitError` after the milliseconds, not
 * counting stalls of the event loop.
 */
export function withTimeout<Result> (
  timeout: number,
  promise: PromiseLike<Result>,
  options: TimeoutOptions<Result> = {}
): Promise<Result> {
  const { clock = () => performance.now(), timers = nodeTimers, late = () => {} } = options
  return new Promise((resolve, reject) => {
    let isOver = false
    const limit = new TimeLimit(timeout, clock, timers, () => {
      isOver = true
      // Has no effect on a promise that has settled by then.
      reject(new TimeLimitError(timeout))
    })
    limit.start()
    // A thenable can be fulfilled with another promise.
    Promise.resolve(promise).then(
      (result) => {
        limit.stop()
        if (isOver) late(result)
        else resolve(result)
      },
      (error) => {
        limit.stop()
        reject(error)
      }
    )
  })
}
