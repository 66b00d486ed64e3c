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

/**
 * Settles as the promise does, or rejects with a `TimeLimitError` after the milliseconds, not
 * counting stalls of the event loop. `late` receives a result that arrives afterwards; it must not
 * throw.
 */
export function within<Result> (
  timeout: number,
  promise: PromiseLike<Result>,
  {
    clock = () => performance.now(),
    timers = nodeTimers,
    late = () => {}
  }: {
    readonly clock?: () => number
    readonly timers?: QuotaTimers
    readonly late?: (result: Result) => void
  } = {}
): Promise<Result> {
  return new Promise((resolve, reject) => {
    let isOver = false
    let timer: unknown
    const wait = (stallsLeft: number): void => {
      const startedAt = clock()
      timer = timers.setTimeout(() => {
        const isLate = clock() - startedAt > timeout * (1 + lateness)
        if (isLate && stallsLeft > 0) wait(stallsLeft - 1)
        else giveUp(graceTurns)
      }, timeout)
    }
    // Has no effect on a promise that has settled by then.
    const giveUp = (turnsLeft: number): void => {
      if (turnsLeft > 0) {
        setImmediate(giveUp, turnsLeft - 1)
      } else {
        isOver = true
        reject(new TimeLimitError(timeout))
      }
    }
    wait(mostStalls)
    Promise.resolve(promise)
      .finally(() => {
        timers.clearTimeout(timer)
      })
      .then((result) => (isOver ? late(result) : resolve(result)), reject)
  })
}
