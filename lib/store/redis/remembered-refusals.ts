import type { Acquisition } from '../store.js'

interface Refusal {
  readonly count: number
  readonly windowEnd: number
}

/**
 * The callers that are known to be at their limit, until their windows end. It holds so many and no more; the oldest
 * makes room for a new one, and the server is asked about it again.
 */
export class RememberedRefusals {
  readonly #most: number
  readonly #refusals = new Map<string, Refusal>()

  constructor (most: number) {
    this.#most = most
  }

  /** What the store would answer, as long as it is sure to refuse: the window is still open and the limit no higher than the count. */
  recall (callerKey: string, limit: number, now: number): Acquisition | undefined {
    const refusal = this.#refusals.get(callerKey)
    if (refusal === undefined) return undefined
    const windowRemaining = refusal.windowEnd - now
    if (windowRemaining > 0 && limit <= refusal.count) return { admitted: false, count: refusal.count, windowRemaining, overflow: false }
    this.#refusals.delete(callerKey)
    return undefined
  }

  /**
   * @param askedAt When the store was asked, so that the window never seems to end later than it does.
   */
  remember (callerKey: string, { count, windowRemaining }: Acquisition, askedAt: number): void {
    for (const oldest of this.#refusals.keys()) {
      if (this.#refusals.size < this.#most) break
      this.#refusals.delete(oldest)
    }
    this.#refusals.set(callerKey, { count, windowEnd: askedAt + windowRemaining })
  }

  clear (): void {
    this.#refusals.clear()
  }
}
