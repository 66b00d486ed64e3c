/** The length of the default quota's window, in milliseconds (docs/rules.md, "Counter and window"). */
export const windowLength = 60_000

/** The minimum time between two sweeps, in milliseconds (docs/rules.md, "Sweep"). */
export const sweepInterval = 60_000

/** How long a counter is kept after its last request, in milliseconds (docs/rules.md, "Sweep"). */
export function counterRetention (window: number): number {
  return window + 60_000
}

/** The limit that always has room. Also the largest count. */
export const unlimited = Number.MAX_SAFE_INTEGER

/** Whether a demand has room beside what is already counted. */
export function hasRoom (count: number, limit: number, cost: number): boolean {
  return count + Math.max(cost, 1) <= limit || limit === unlimited
}

/** What is counted for a caller: in one window of a counter, or in flight. What is given back to a past window changes no other. */
export class Tally {
  count = 0

  add (amount: number): void {
    this.count = Math.min(this.count + amount, unlimited)
  }

  giveBack (amount: number): void {
    this.count = Math.max(0, this.count - amount)
  }
}

/** A window of a counter. Times are monotonic milliseconds, except for `end`. */
export class Window extends Tally {
  readonly #start: number
  readonly #length: number
  /** When the day or month of a time zone ends, in milliseconds since the epoch; null if the window has a fixed length. */
  readonly end: number | null

  constructor (now: number, length: number, end: number | null) {
    super()
    this.#start = now
    this.#length = length
    this.end = end
  }

  /** The time until a window of a fixed length ends, in milliseconds; null for others. */
  remaining (now: number): number | null {
    return this.end === null ? this.#length - (now - this.#start) : null
  }

  /** Whether a request finds this window open, instead of opening one that ends at `end`, or one of a fixed length if that is null. */
  isOpen (now: number, end: number | null): boolean {
    return this.end === null || end === null ? now - this.#start < this.#length : end <= this.end
  }
}

/** A quota counter (docs/rules.md, "Counter and window"). */
export class Counter {
  // Starts as a double because V8 then updates it in place; a change from a small integer would deoptimize compiled code.
  /** Time of the most recent request that reached this counter, admitted or not, in monotonic milliseconds. */
  lastSeen = -Infinity
  /** The latest window; undefined before the first request. */
  window: Window | undefined

  /** Returns the window that a request at this time finds open or opens. */
  reach (now: number, length: number, end: number | null): Window {
    this.lastSeen = now
    if (this.window?.isOpen(now, end) !== true) this.window = new Window(now, length, end)
    return this.window
  }
}
