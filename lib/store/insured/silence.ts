import { TimeLimitError } from '../../errors.js'
import { TimeLimit, type QuotaTimers } from '../../time-limit.js'
import { UnorderedList, type Listed } from '../../unordered-list.js'

/** How the result of a call is treated. */
interface SilenceOptions<Result> {
  /** Whether the result shows that the store answers. Default: every result does. */
  readonly isSign?: (result: Result) => boolean
  /** Receives the result of a call that was given up. Must not throw. */
  readonly late?: (result: Result) => void
}

/** A call that waits for the store. */
interface WaitingCall extends Listed {
  giveUp(error: TimeLimitError): void
}

/**
 * Gives up the calls of a store that is silent: that has been asked, and has answered none of its
 * calls for the time `timeout`. As long as it answers some of them, the others wait, however many
 * they are. So a store is not given up because many requests arrive together, which would wait
 * longer than `timeout` in the queues of this process.
 */
export class Silence {
  readonly #limit: TimeLimit
  readonly #waiting = new UnorderedList<WaitingCall>()

  /** @param timeout Milliseconds. */
  constructor (timeout: number, timers: QuotaTimers) {
    const giveUpAll = (): void => {
      for (const call of this.#waiting.all()) {
        this.#waiting.delete(call)
        call.giveUp(new TimeLimitError(timeout))
      }
    }
    this.#limit = new TimeLimit(timeout, giveUpAll, timers)
  }

  /** Settles as a call does, or rejects with a `TimeLimitError` if the store is silent. */
  watch<Result> (
    result: PromiseLike<Result>,
    options: SilenceOptions<Result> = {}
  ): Promise<Result> {
    const { isSign = () => true, late = () => {} } = options
    return new Promise((resolve, reject) => {
      let isGivenUp = false
      const call: WaitingCall = {
        position: undefined,
        giveUp (error) {
          isGivenUp = true
          reject(error)
        }
      }
      this.#add(call)
      // A thenable can be fulfilled with another promise.
      Promise.resolve(result).then(
        (value) => {
          this.#remove(call, isSign(value))
          if (isGivenUp) late(value)
          else resolve(value)
        },
        (error) => {
          this.#remove(call, false)
          reject(error)
        }
      )
    })
  }

  #add (call: WaitingCall): void {
    this.#waiting.add(call)
    if (this.#waiting.length === 1) this.#limit.start()
  }

  #remove (call: WaitingCall, isSign: boolean): void {
    this.#waiting.delete(call)
    if (this.#waiting.length === 0) this.#limit.stop()
    else if (isSign) this.#limit.start()
  }
}
