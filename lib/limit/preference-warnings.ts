import type { FastifyBaseLogger } from 'fastify'

/** How long a reader must work before the next failure is logged again, in milliseconds. */
const recovery = 60_000

/**
 * Logs once that a preference is unavailable, and again only after the reader has worked for a minute, so that an outage does not
 * flood the log.
 */
export class PreferenceWarnings {
  readonly #log: FastifyBaseLogger
  #warned = false
  #wellSince: number | undefined

  constructor (log: FastifyBaseLogger) {
    this.#log = log
  }

  /** Records that the reader returned a valid value, or that the preference is not set. */
  answered (): void {
    if (!this.#warned) return
    if (this.#wellSince === undefined) this.#wellSince = performance.now()
    else if (this.#hasRecovered()) this.#warned = false
  }

  /** Records that the preference was unavailable. `reason` is logged. */
  unavailable (reason: object): void {
    if (!this.#warned || this.#hasRecovered()) {
      this.#log.warn(reason, 'the quota\'s runtime preference is unavailable; the configured limit applies until the reader recovers')
    }
    this.#warned = true
    this.#wellSince = undefined
  }

  #hasRecovered (): boolean {
    return this.#wellSince !== undefined && performance.now() - this.#wellSince >= recovery
  }
}
