import type { QuotaTimers } from './timers.js'

// A late timer shows that the event loop stalled. With more slices, a stall uses up less of the timeout.
const slices = 4

// A reply that has arrived at the socket reaches its reader in one turn of the event loop, or in two or three if it passes
// through TLS or a proxy in the same process.
const quietTurns = 3

// Bounds the wait if every turn stalls.
const mostTurns = 16

/**
 * Limits how long to wait for an answer. Time during which the event loop stalls is not counted, because the process cannot receive
 * an answer during that time.
 *
 * The timeout is divided into slices, each with its own timer. If a timer is late by more than a slice, the event loop has stalled,
 * and no more than one slice of the stall is counted. When the last timer runs, the poll phase has not run yet, and an answer that
 * arrived during a stall may still be in the socket. The wait therefore ends only after a few turns without a stall.
 */
export class TimeLimit {
  readonly #timeout: number
  readonly #clock: () => number
  readonly #timers: QuotaTimers

  /** @param timeout The timeout, in milliseconds. */
  constructor (timeout: number, clock: () => number, timers: QuotaTimers) {
    this.#timeout = timeout
    this.#clock = clock
    this.#timers = timers
  }

  /** Settles with the result of the answer, or rejects if the answer does not arrive in time. A late answer is ignored. */
  within<Answer> (answer: PromiseLike<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const wait = new Wait(this.#timeout, this.#clock, this.#timers, () => { reject(new Error(`no answer within ${this.#timeout} ms`)) })
      answer.then((value) => {
        wait.end()
        resolve(value)
      }, (error: unknown) => {
        wait.end()
        reject(error)
      })
    })
  }
}

/** The wait for one answer. */
class Wait {
  readonly #slice: number
  readonly #clock: () => number
  readonly #timers: QuotaTimers
  readonly #giveUp: () => void
  #left: number
  #timer: unknown
  #hasEnded = false

  constructor (timeout: number, clock: () => number, timers: QuotaTimers, giveUp: () => void) {
    this.#slice = timeout / slices
    this.#left = timeout
    this.#clock = clock
    this.#timers = timers
    this.#giveUp = giveUp
    this.#sleep()
  }

  end (): void {
    this.#hasEnded = true
    this.#timers.clearTimeout(this.#timer)
  }

  #sleep (): void {
    const delay = Math.max(1, Math.min(this.#slice, this.#left))
    const startedAt = this.#clock()
    this.#timer = this.#timers.setTimeout(() => {
      // Counts at least half a slice, so that a clock that stops or is set back cannot extend the wait without end.
      this.#left -= Math.min(Math.max(this.#clock() - startedAt, delay / 2), 2 * delay)
      if (this.#left > 0) this.#sleep()
      else this.#look(mostTurns, quietTurns)
    }, delay)
  }

  /** Gives up after `quiet` consecutive turns of the event loop without a stall, and after `turns` turns in any case. */
  #look (turns: number, quiet: number): void {
    if (turns === 0 || quiet === 0) return this.#giveUp()
    const startedAt = this.#clock()
    setImmediate(() => {
      if (this.#hasEnded) return
      const stalled = this.#clock() - startedAt > this.#slice
      this.#look(turns - 1, stalled ? quietTurns : quiet - 1)
    })
  }
}
