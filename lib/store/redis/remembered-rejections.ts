import type { Acquisition } from '../store.js'

// Long windows would otherwise hide for hours that the counter has been removed on the server. In milliseconds.
const longestMemory = 60_000

interface Rejection {
  readonly count: number
  readonly windowEnd: number
  readonly rememberedUntil: number
}

/**
 * Remembers callers that are at their limit until their windows end, at most for a minute. Bounded; the oldest entry is evicted, and the server decides
 * on that caller's requests again.
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
    if (rejection === undefined) return undefined
    const windowRemaining = rejection.windowEnd - now
    if (windowRemaining > 0 && now < rejection.rememberedUntil && limit <= rejection.count) return { admitted: false, count: rejection.count, windowRemaining, overflow: false }
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
    this.#rejections.set(callerKey, { count, windowEnd: askedAt + windowRemaining, rememberedUntil: askedAt + longestMemory })
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
