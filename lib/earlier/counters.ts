import { windowLength } from '../window.js'

interface EarlierCounter { count: number, windowStart: number }

/**
 * The earlier bookkeeping: a counter for each address, for as long as the process lives. There is no cap, no sweep and no
 * overflow counter, so that its memory grows with every address that anyone claims to have.
 */
export class EarlierCounters {
  readonly #counters = new Map<string, EarlierCounter>()
  readonly #clock: () => number

  constructor (clock: () => number) {
    this.#clock = clock
  }

  /** True when the request is admitted, and then counted. */
  acquire (address: string, limit: number): boolean {
    const now = this.#clock()
    const counter = this.#counters.get(address)
    if (counter === undefined || now - counter.windowStart > windowLength) {
      this.#counters.set(address, { count: 1, windowStart: now })
      return true
    }
    if (counter.count >= limit) return false
    counter.count += 1
    return true
  }
}
