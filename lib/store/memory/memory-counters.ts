import { counterRetention, sweepInterval } from '../counter.js'
import type { CallerCount, QuotaCount, QuotaStoreState } from '../store.js'

const never = -Infinity

/** A window of a counter. Times are monotonic milliseconds, except for `end`. */
class Window {
  count = 0
  readonly #start: number
  readonly #length: number

  /**
   * @param end When the day or month of a time zone ends, in milliseconds since the epoch; null if
   * the window has a fixed length.
   */
  constructor (
    now: number,
    length: number,
    readonly end: number | null
  ) {
    this.#start = now
    this.#length = length
  }

  /** The time until a window of a fixed length ends, in milliseconds; null for others. */
  remaining (now: number): number | null {
    return this.end === null ? this.#length - (now - this.#start) : null
  }

  /**
   * Whether a request finds this window open, instead of opening one that ends at `end`, or one of
   * a fixed length if that is null.
   */
  isOpen (now: number, end: number | null): boolean {
    return this.end === null || end === null ? now - this.#start < this.#length : end <= this.end
  }

  /** What a store says of this window: its count, and when it ends or how long it remains open. */
  stateAt (now: number): Pick<QuotaCount, 'count' | 'windowRemaining' | 'end'> {
    const { count, end } = this
    return end === null
      ? { count, windowRemaining: this.remaining(now) }
      : { count, windowRemaining: null, end }
  }
}

/** A quota counter (docs/rules.md, "Counter and window"). */
class Counter {
  // Starts as a double because V8 then updates it in place; a change from a small integer would
  // deoptimize compiled code.
  /**
   * Time of the most recent request that reached this counter, admitted or not, in monotonic
   * milliseconds.
   */
  lastSeen = never
  /** The latest window; undefined before the first request. */
  window: Window | undefined

  /** Returns the window that a request at this time finds open or opens. */
  reach (now: number, length: number, end: number | null): Window {
    this.lastSeen = now
    if (this.window?.isOpen(now, end) !== true) this.window = new Window(now, length, end)
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
    return window?.isOpen(now, end) === true ? { ...window.stateAt(now), overflow } : null
  }

  forget (callerKey: string): void {
    this.#byCaller.delete(callerKey)
  }

  /** Returns the callers with a counter of their own whose window is open. */
  list (now: number): CallerCount[] {
    return [...this.#byCaller].flatMap(([callerKey, { window }]) =>
      window?.isOpen(now, Date.now() + 1) === true ? { callerKey, ...window.stateAt(now) } : []
    )
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
    return (
      now - this.#sweptAt >= sweepInterval &&
      [...this.#byCaller.values()].some((counter) => counter.isExpired(now, length))
    )
  }
}
