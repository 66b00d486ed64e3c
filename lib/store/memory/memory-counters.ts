import { counterRetention, sweepInterval } from '../counter.js'
import type { CallerCount, QuotaCount, QuotaStoreState } from '../store.js'
import { wallClock } from '../../wall-clock.js'
import { Window } from './window.js'

const never = -Infinity

/** A quota counter (docs/rules.md, "Counter and window"). */
class Counter {
  // Starts as a double because V8 then updates it in place; a change from a small integer would
  // deoptimize compiled code.
  /**
   * Time of the most recent request that reached this counter, admitted or not, in monotonic
   * milliseconds.
   */
  lastSeen = never
  /** The latest window; null before the first request. */
  window: Window | null = null

  /** Returns the window that a request at this time finds open or opens. */
  reach (now: number, length: number, end: number | null): Window {
    this.lastSeen = now
    if (this.window === null || !this.window.isOpen(now, end)) {
      this.window = new Window(now, length, end)
    }
    return this.window
  }

  isExpired (now: number, length: number): boolean {
    return now - this.lastSeen >= counterRetention(length)
  }
}

/**
 * The counters of one quota: those of its tracked callers and the overflow counter. Times are
 * monotonic milliseconds.
 */
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

  /**
   * Returns the caller's own counter, which a request reaches now; undefined for the overflow
   * counter. Runs a sweep first if it is due.
   */
  own (callerKey: string, now: number, length: number): Counter | undefined {
    if (now - this.#sweptAt >= sweepInterval) this.#sweep(now, length)
    const known = this.#byCaller.get(callerKey)
    if (known !== undefined || this.#byCaller.size >= this.#cap) return known
    const counter = new Counter()
    this.#byCaller.set(callerKey, counter)
    return counter
  }

  /**
   * Returns the state of the counter that a request would reach now; null if it would open a new
   * window.
   */
  peek (callerKey: string, now: number, length: number, end: number | null): QuotaCount | null {
    const own = this.#byCaller.get(callerKey)
    const overflow =
      own === undefined && this.#byCaller.size >= this.#cap && !this.#wouldMakeRoom(now, length)
    const window = (overflow ? this.overflow : own)?.window
    if (window == null || !window.isOpen(now, end)) return null
    return { ...window.stateAt(now), overflow }
  }

  forget (callerKey: string): void {
    this.#byCaller.delete(callerKey)
  }

  /** Returns the callers with a counter of their own whose window is open. */
  list (now: number): CallerCount[] {
    const callers: CallerCount[] = []
    // A day or month of a time zone is over for a demand with a later end.
    const nextEnd = wallClock() + 1
    for (const [callerKey, { window }] of this.#byCaller) {
      if (window?.isOpen(now, window.end === null ? null : nextEnd) !== true) continue
      callers.push({ callerKey, ...window.stateAt(now) })
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
    for (const [callerKey, counter] of this.#byCaller) {
      if (counter.isExpired(now, length)) this.forget(callerKey)
    }
  }

  #wouldMakeRoom (now: number, length: number): boolean {
    if (now - this.#sweptAt < sweepInterval) return false
    for (const counter of this.#byCaller.values()) {
      if (counter.isExpired(now, length)) return true
    }
    return false
  }
}
