import { Counter, counterRetention, sweepInterval, type Window } from '../counter.js'
import type { CallerCount, QuotaCount, QuotaStoreState } from '../store.js'

const never = -Infinity

/** A caller's own counter, linked to its neighbours in the order of last requests. */
class TrackedCounter extends Counter {
  readonly callerKey: string
  /** The counter with the next earlier last request. */
  older: TrackedCounter = this
  /** The counter with the next later last request. */
  newer: TrackedCounter = this

  constructor (callerKey: string) {
    super()
    this.callerKey = callerKey
  }

  moveBefore (newer: TrackedCounter): void {
    this.unlink()
    this.older = newer.older
    this.newer = newer
    this.older.newer = this
    newer.older = this
  }

  unlink (): void {
    this.older.newer = this.newer
    this.newer.older = this.older
  }
}

/**
 * The counters of one quota: those of its tracked callers and the overflow counter. Times are monotonic milliseconds.
 *
 * The counters of callers are also ordered by last request, because those that a sweep removes are the oldest ones.
 */
export class MemoryCounters {
  readonly overflow = new Counter()
  readonly #cap: number
  readonly #byCaller = new Map<string, TrackedCounter>()
  // Between the newest counter and the oldest one. Its `lastSeen` is Infinity, so a sweep stops at it.
  readonly #ends = new TrackedCounter('')
  #sweptAt = never
  #sweeps = 0

  /** @param cap How many callers can have a counter of their own. */
  constructor (cap: number) {
    this.#cap = cap
    this.#ends.lastSeen = Infinity
  }

  /** Returns the counter that a request reaches now: the caller's own one, or undefined for the overflow counter. Runs a sweep first if it is due. */
  own (callerKey: string, now: number, length: number): Counter | undefined {
    if (now - this.#sweptAt >= sweepInterval) this.#sweep(now, length)
    let counter = this.#byCaller.get(callerKey)
    if (counter === undefined) {
      if (this.#byCaller.size >= this.#cap) return undefined
      counter = new TrackedCounter(callerKey)
      this.#byCaller.set(callerKey, counter)
    }
    counter.moveBefore(this.#ends)
    return counter
  }

  /** Returns the state of the counter that a request would reach now; null if it would open a new window. */
  peek (callerKey: string, now: number, length: number, end: number | null): QuotaCount | null {
    const own = this.#byCaller.get(callerKey)
    const wouldSweep = now - this.#sweptAt >= sweepInterval && isExpired(this.#ends.newer, now, length)
    const counter = own ?? (this.#byCaller.size >= this.#cap && !wouldSweep ? this.overflow : undefined)
    const window = counter?.window
    return window?.isOpen(now, end) === true ? { ...stateOf(window, now), overflow: own === undefined } : null
  }

  forget (callerKey: string): void {
    this.#byCaller.get(callerKey)?.unlink()
    this.#byCaller.delete(callerKey)
  }

  /** Returns the callers with a counter of their own whose window is open. */
  list (now: number): CallerCount[] {
    const callers: CallerCount[] = []
    for (const { callerKey, window } of this.#byCaller.values()) {
      if (window?.isOpen(now, Date.now() + 1) === true) callers.push({ callerKey, ...stateOf(window, now) })
    }
    return callers
  }

  inspect (): QuotaStoreState {
    return { trackedCallers: this.#byCaller.size, sweeps: this.#sweeps }
  }

  #sweep (now: number, length: number): void {
    // The first request only starts the interval, so it is not counted as a sweep.
    if (this.#sweptAt !== never) this.#sweeps += 1
    this.#sweptAt = now
    while (isExpired(this.#ends.newer, now, length)) this.forget(this.#ends.newer.callerKey)
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
