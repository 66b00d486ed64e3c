import { TimeLimit, TimeLimitError, type QuotaTimers } from '../../time-limit.js'

/** How the result of a call is treated. */
interface SilenceOptions<Result> {
  /** Whether the result shows that the store answers. Default: every result does. */
  readonly isSign?: (result: Result) => boolean
  /** Receives the result of a call that was given up. Must not throw. */
  readonly late?: (result: Result) => void
}

/**
 * Gives up the calls of a store that is silent: that has been asked, and has answered none of its
 * calls for the time `timeout`. As long as it answers some of them, the others wait, however many
 * they are. So a store is not given up because many requests arrive together, which would wait
 * longer than `timeout` in the queues of this process.
 */
export class Silence {
  readonly #limit: TimeLimit
  // Gives up each call that waits.
  readonly #waiting = new Set<(error: TimeLimitError) => void>()

  /** @param timeout Milliseconds. */
  constructor (timeout: number, timers: QuotaTimers) {
    const giveUpAll = (): void => {
      const waiting = [...this.#waiting]
      this.#waiting.clear()
      for (const giveUp of waiting) giveUp(new TimeLimitError(timeout))
    }
    this.#limit = new TimeLimit(timeout, giveUpAll, timers)
  }

  /** Settles as the call does, or rejects with a `TimeLimitError` if the store is silent. */
  watch<Result> (call: PromiseLike<Result>, options: SilenceOptions<Result> = {}): Promise<Result> {
    const { isSign = () => true, late = () => {} } = options
    return new Promise((resolve, reject) => {
      let isGivenUp = false
      const giveUp = (error: TimeLimitError): void => {
        isGivenUp = true
        reject(error)
      }
      this.#add(giveUp)
      // A thenable can be fulfilled with another promise.
      Promise.resolve(call).then(
        (result) => {
          this.#remove(giveUp, isSign(result))
          if (isGivenUp) late(result)
          else resolve(result)
        },
        (error) => {
          this.#remove(giveUp, false)
          reject(error)
        }
      )
    })
  }

  #add (giveUp: (error: TimeLimitError) => void): void {
    this.#waiting.add(giveUp)
    if (this.#waiting.size === 1) this.#limit.start()
  }

  #remove (giveUp: (error: TimeLimitError) => void, isSign: boolean): void {
    this.#waiting.delete(giveUp)
    if (this.#waiting.size === 0) this.#limit.stop()
    else if (isSign) this.#limit.start()
  }
}
