import type { QuotaTimers } from '../../time-limit.js'

// How often the clock sees that the event loop runs, in milliseconds.
const beatInterval = 100

// How much of the time between two beats counts, in milliseconds.
const longestBeat = 2 * beatInterval

/**
 * Counts the milliseconds in which the event loop runs, so that a stall of the process is no
 * failure of the server. The clock stands still until it is started, and is started while something
 * waits.
 */
export class RunningClock {
  readonly #clock: () => number
  readonly #timers: QuotaTimers
  // The time until the latest beat.
  #ran = 0
  #beatAt = 0
  #isRunning = false

  /** @param clock Returns monotonic milliseconds. */
  constructor (clock: () => number, timers: QuotaTimers) {
    this.#clock = clock
    this.#timers = timers
  }

  readonly now = (): number => {
    if (!this.#isRunning) return this.#ran
    return this.#ran + Math.min(this.#clock() - this.#beatAt, longestBeat)
  }

  /** @param isNeeded Whether something still waits. Otherwise, the clock stops. */
  start (isNeeded: () => boolean): void {
    if (this.#isRunning) return
    this.#isRunning = true
    this.#beatAt = this.#clock()
    this.#beatLater(isNeeded)
  }

  #beatLater (isNeeded: () => boolean): void {
    this.#timers.setTimeout(() => {
      this.#ran = this.now()
      this.#beatAt = this.#clock()
      this.#isRunning = isNeeded()
      if (this.#isRunning) this.#beatLater(isNeeded)
    }, beatInterval)
  }
}
