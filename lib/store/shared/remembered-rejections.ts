import { hasRoom } from '../counter.js'
import type { Acquisition, Demand } from '../store.js'
import { nameOf } from './holdings.js'

// What another process changes (`forget`, `clearCounters`, something given back) takes effect after this time, in milliseconds.
const longestMemory = 1_000

/** What a counter held, when its window is over by the clock of this process, or its end, and until when this is remembered. */
interface Rejection {
  readonly count: number
  readonly windowEnd: number
  readonly end: number | undefined
  readonly rememberedUntil: number
}

/** Remembers what the counters of rejected callers held, for up to a second, so that the server is not asked about each request of a flood. */
export class RememberedRejections {
  readonly #capacity: number
  // The oldest is the first.
  readonly #rejections = new Map<string, Rejection>()
  /** Changes with each `forget` and `clear`, because a reply to a call of an earlier era can be out of date. */
  era = 0

  /** @param capacity The maximum number of rejections; the oldest one is evicted. */
  constructor (capacity: number) {
    this.#capacity = capacity
  }

  /** Returns a rejection if the demand has no room beside what its counter held. */
  recall (demand: Demand, now: number): Acquisition | undefined {
    if (this.#rejections.size === 0) return undefined
    const rejection = this.#rejections.get(nameOf(demand))
    if (rejection === undefined || now >= rejection.rememberedUntil || hasRoom(rejection.count, demand.limit, demand.cost)) return undefined
    const { count, windowEnd, end } = rejection
    if (end === undefined) return { admitted: false, count, windowRemaining: windowEnd - now, overflow: false }
    return demand.end !== null && demand.end <= end ? { admitted: false, count, windowRemaining: null, end, overflow: false } : undefined
  }

  /**
   * Remembers what rejected the demand. The overflow counter's state is not remembered, because the caller can get a counter of its own at any time.
   *
   * @param askedAt The time before the server was asked, so that no window is remembered as longer than it is.
   */
  remember (demand: Demand, acquisition: Acquisition | null | undefined, askedAt: number): void {
    if (acquisition == null || acquisition.admitted || acquisition.overflow || demand.window === null) return
    for (const [oldest, { rememberedUntil }] of this.#rejections) {
      if (this.#rejections.size < this.#capacity && askedAt < rememberedUntil) break
      this.#rejections.delete(oldest)
    }
    const { count, windowRemaining, end } = acquisition
    const windowEnd = askedAt + (windowRemaining ?? longestMemory)
    this.#rejections.set(nameOf(demand), { count, windowEnd, end, rememberedUntil: Math.min(windowEnd, askedAt + longestMemory) })
  }

  /** Removes what is out of date because something was released. A reply that is on its way can still be remembered. */
  drop (demand: Pick<Demand, 'counters' | 'callerKey'>): void {
    if (this.#rejections.size > 0) this.#rejections.delete(nameOf(demand))
  }

  forget (callerKey: string, counters: string): void {
    this.era += 1
    this.drop({ callerKey, counters })
  }

  clear (): void {
    this.era += 1
    this.#rejections.clear()
  }
}
