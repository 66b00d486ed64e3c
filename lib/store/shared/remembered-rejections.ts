import { required } from '../../required.js'
import { hasRoom } from '../counter.js'
import type { Acquisition, Demand } from '../store.js'
import { nameOf } from './driver.js'

// How long a rejection is remembered, in milliseconds. What another process changes (`forget`,
// `clearCounters`, a settlement) takes effect after this time at the latest.
const longestMemory = 1_000

/**
 * Remembers what the counters of rejected callers held, so that the server is not asked about each
 * request of a flood.
 */
export class RememberedRejections {
  readonly #capacity: number
  // The oldest is the first.
  readonly #rejections = new Map<
    string,
    { readonly acquisition: Acquisition; readonly askedAt: number }
  >()

  /** @param capacity The maximum number of rejections; the oldest one is evicted. */
  constructor (capacity: number) {
    this.#capacity = capacity
  }

  /**
   * Returns a rejection if the demand has no room beside what its counter held; null if it must be
   * asked.
   */
  recall (demand: Demand, now: number): Acquisition | null {
    // Most processes remember none, and need no name to look for.
    if (this.#rejections.size === 0) return null
    const known = this.#rejections.get(nameOf(demand))
    if (known === undefined || now - known.askedAt >= longestMemory) return null
    const { count, held, windowRemaining, end } = known.acquisition
    if (hasRoom(count, demand)) return null
    const rejection = rejectionOf(count, held)
    if (end !== undefined) {
      const isOpen = demand.start !== null && demand.start < end
      return isOpen ? { ...rejection, end } : null
    }
    const length = required(windowRemaining, 'the remaining time of a window')
    const remaining = length - (now - known.askedAt)
    return remaining > 0 ? { ...rejection, windowRemaining: remaining } : null
  }

  /**
   * Remembers what rejected the demand, but not the state of the overflow counter: the caller can
   * get a counter of its own at any time.
   *
   * @param askedAt The time before the server was asked, so that no window is remembered as longer
   *   than it is.
   */
  remember (demand: Demand, acquisition: Acquisition | null, askedAt: number): void {
    const hasRejected = acquisition !== null && !acquisition.admitted
    if (!hasRejected || acquisition.overflow || demand.window === null) return
    for (const [oldest, { askedAt: rememberedAt }] of this.#rejections) {
      if (this.#rejections.size < this.#capacity && askedAt - rememberedAt < longestMemory) break
      this.#rejections.delete(oldest)
    }
    const name = nameOf(demand)
    this.#rejections.delete(name)
    this.#rejections.set(name, { acquisition, askedAt })
  }

  /**
   * Removes what is out of date because something was settled. A reply that is on its way can still
   * be remembered.
   */
  drop (demand: Demand): void {
    this.#rejections.delete(nameOf(demand))
  }
}

/** A rejection for which the server was not asked. */
export function rejectionOf (count: number, held: number): Acquisition {
  return {
    admitted: false,
    granted: 0,
    count,
    held,
    windowRemaining: null,
    overflow: false,
    isRemembered: true
  }
}
