import { Counter, counterRetention, sweepInterval, type Window } from '../counter.js'
import type { CallerCount, QuotaCount, QuotaStoreState } from '../store.js'

const never = -Infinity

/** The counters of one quota: those of its tracked callers and the overflow counter. Times are monotonic milliseconds. */
export class MemoryCounters {
  readonly overflow = new Counter()
  readonly #cap: number
  readonly #byCaller = new Map<string, Counter>()
  #sweptAt = never
  #sweeps = 0

  /** @param cap How many callers can have a counter of their own. */
  constructor (cap: number) {
    this.#cap = cap
  }

  /** Returns the caller's own counter, which a request reaches now; undefined for the overflow counter. Runs a sweep first if it is due. */
  own (callerKey: string, now: number, length: number): Counter | undefined {
    if (now - this.#sweptAt >= sweepInterval) this.#sweep(now, length)
    const known = this.#byCaller.get(callerKey)
    if (known !== undefined || this.#byCaller.size >= this.#cap) return known
    const counter = new Counter()
    this.#byCaller.set(callerKey, counter)
    return counter
  }

  /** Returns the state of the counter that a request would reach now; null if it would open a new window. */
  peek (callerKey: string, now: number, length: number, end: number | null): QuotaCount | null {
    const own = this.#byCaller.get(callerKey)
    const overflows = own === undefined && this.#byCaller.size >= this.#cap && !this.#wouldMakeRoom(now, length)
    const window = (overflows ? this.overflow : own)?.window
    return window?.isOpen(now, end) === true ? { ...stateOf(window, now), overflow: overflows } : null
  }

  forget (callerKey: string): void {
    this.#byCaller.delete(callerKey)
  }

  /** Returns the callers with a counter of their own whose window is open. */
  list (now: number): CallerCount[] {
    return [...this.#byCaller].flatMap(([callerKey, { window }]) =>
      window?.isOpen(now, Date.now() + 1) === true ? { callerKey, ...stateOf(window, now) } : [])
  }

  inspect (): QuotaStoreState {
    return { trackedCallers: this.#byCaller.size, sweeps: this.#sweeps }
  }

  #sweep (now: number, length: number): void {
    // The first request only starts the interval, so it is not counted as a sweep.
    if (this.#sweptAt !== never) this.#sweeps += 1
    this.#sweptAt = now
    for (const [callerKey, counter] of this.#byCaller) if (isExpired(counter, now, length)) this.forget(callerKey)
  }

  #wouldMakeRoom (now: number, length: number): boolean {
    if (now - this.#sweptAt < sweepInterval) return false
    for (const counter of this.#byCaller.values()) if (isExpired(counter, now, length)) return true
    return false
  }
}

function isExpired ({ lastSeen }: Counter, now: number, length: number): boolean {
  return now - lastSeen >= counterRetention(length)
}

/** What a store says of a window: when it ends, or how long it remains open. */
function stateOf (window: Window, now: number): Pick<QuotaCount, 'count' | 'windowRemaining' | 'end'> {
  const { count, end } = window
  return end === null ? { count, windowRemaining: window.remaining(now) } : { count, windowRemaining: null, end }
}
