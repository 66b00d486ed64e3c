import type { Acquisition } from './store.js'

// `forget` and `clearCounters` of another process take effect after this time, in milliseconds.
const longestMemory = 60_000

interface Rejection {
  readonly count: number
  readonly windowEnd: number
  readonly rememberedUntil: number
}

/**
 * Remembers callers that are at their limit until their windows end, for up to a minute. Bounded; the oldest entry is evicted, and the server
 * decides on that caller's requests again.
 */
export class RememberedRejections {
  readonly #most: number
  readonly #rejections = new Map<string, Rejection>()
  // Changes with each `forget` and `clear`, because an answer that was requested in an earlier era may be out of date.
  #era = 0

  constructor (most: number) {
    this.#most = most
  }

  /**
   * Returns a rejection if the server is certain to reject: the window is still open, and the limit is not above the count. Otherwise asks the
   * server and remembers a rejection.
   *
   * @param now The time before the server is asked, so that no window is remembered as longer than it is.
   */
  acquire (callerKey: string, limit: number, now: number, ask: () => Promise<Acquisition>): Acquisition | Promise<Acquisition> {
    const era = this.#era
    return this.#recall(callerKey, limit, now) ?? ask().then((acquisition) => {
      // A rejection by the overflow counter is not remembered, because the caller can get a counter of its own at any time.
      if (!acquisition.admitted && !acquisition.overflow && era === this.#era) this.#remember(callerKey, acquisition, now)
      return acquisition
    })
  }

  #recall (callerKey: string, limit: number, now: number): Acquisition | undefined {
    const rejection = this.#rejections.get(callerKey)
    if (rejection === undefined || limit > rejection.count) return undefined
    const { count, windowEnd, rememberedUntil } = rejection
    if (now < rememberedUntil) return { admitted: false, count, windowRemaining: windowEnd - now, overflow: false }
    this.#rejections.delete(callerKey)
    return undefined
  }

  #remember (callerKey: string, { count, windowRemaining }: Acquisition, askedAt: number): void {
    for (const oldest of this.#rejections.keys()) {
      if (this.#rejections.size < this.#most) break
      this.#rejections.delete(oldest)
    }
    const windowEnd = askedAt + windowRemaining
    this.#rejections.set(callerKey, { count, windowEnd, rememberedUntil: Math.min(windowEnd, askedAt + longestMemory) })
  }

  forget (callerKey: string): void {
    this.#era += 1
    this.#rejections.delete(callerKey)
  }

  clear (): void {
    this.#era += 1
    this.#rejections.clear()
  }
}
