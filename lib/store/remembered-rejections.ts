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
  #era = 0

  constructor (most: number) {
    this.#most = most
  }

  /** Changes with each `forget` and `clear`, because an answer that was requested in an earlier era may be out of date. */
  get era (): number {
    return this.#era
  }

  /** Returns a rejection if the server is certain to reject: the window is still open, and the limit is not above the count. */
  recall (callerKey: string, limit: number, now: number): Acquisition | undefined {
    const rejection = this.#rejections.get(callerKey)
    if (rejection === undefined || limit > rejection.count) return undefined
    const { count, windowEnd, rememberedUntil } = rejection
    if (now < rememberedUntil) return { admitted: false, count, windowRemaining: windowEnd - now, overflow: false }
    this.#rejections.delete(callerKey)
    return undefined
  }

  /**
   * @param askedAt The time just before the command was sent, so that no window is remembered as longer than it is.
   * @param era The era just before the command was sent.
   */
  remember (callerKey: string, { count, windowRemaining }: Acquisition, askedAt: number, era: number): void {
    if (era !== this.#era) return
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
