import type { FastifyBaseLogger } from 'fastify'
import { logLine } from '../log.js'

// How long a reader must work before its next failure is logged again, in milliseconds.
const recovery = 60_000

// How many timeouts in a row a reader may have before it is left alone, and for how long, in milliseconds.
const timeoutsBeforeRest = 3
const rest = 1000

/**
 * Decides whether a preference reader is called and logs its failures once, so that an outage neither delays every request nor floods the
 * log. After three timeouts in a row, the reader is left alone for a second. Then one request calls it again, and the others do not wait.
 */
export class ReaderHealth {
  readonly #log: FastifyBaseLogger
  #timeouts = 0
  #restsUntil = -Infinity
  #isBeingTried = false
  #isWarned = false
  #wellSince: number | undefined

  constructor (log: FastifyBaseLogger) {
    this.#log = log
  }

  /** Whether the current request may call the reader. */
  mayBeAsked (): boolean {
    if (this.#timeouts < timeoutsBeforeRest) return true
    if (this.#isBeingTried || performance.now() < this.#restsUntil) return false
    this.#isBeingTried = true
    return true
  }

  /** Records that the reader returned a valid value, or that the preference is unset. */
  succeeded (): void {
    this.#settled()
    this.#wellSince ??= performance.now()
  }

  /** Records that the reader failed or returned an invalid value. `reason` is logged. */
  failed (reason: object): void {
    this.#settled()
    this.#warn(reason, 'the quota\'s runtime preference is unavailable; the configured limit applies until the reader recovers')
  }

  /** Records that the reader did not return in time. `reason` is logged. */
  timedOut (reason: object): void {
    this.#timeouts += 1
    this.#isBeingTried = false
    this.#warn(reason, 'the quota\'s preference reader did not return in time; the configured limit applies')
    if (this.#timeouts < timeoutsBeforeRest) return
    this.#restsUntil = performance.now() + rest
    if (this.#timeouts === timeoutsBeforeRest) {
      logLine(this.#log, 'warn', reason, `the quota's preference reader did not return in time ${timeoutsBeforeRest} times in a row; until it does, only one request per second calls it`)
    }
  }

  #settled (): void {
    this.#timeouts = 0
    this.#isBeingTried = false
  }

  #warn (reason: object, message: string): void {
    const hasRecovered = this.#wellSince !== undefined && performance.now() - this.#wellSince >= recovery
    if (!this.#isWarned || hasRecovered) logLine(this.#log, 'warn', reason, message)
    this.#isWarned = true
    this.#wellSince = undefined
  }
}
