import { windowLength } from '../store/counter.js'

interface EarlierCounter { count: number, windowStart: number }

/** Keeps one counter for each address until the process ends: without a caller cap, sweeps and an overflow counter. */
export class EarlierCounters {
  readonly #counters = new Map<string, EarlierCounter>()
  readonly #clock: () => number

  constructor (clock: () => number) {
    this.#clock = clock
  }

  /** Returns true and counts the request if it is admitted. */
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
