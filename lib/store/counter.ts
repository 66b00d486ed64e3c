/** The length of the default quota's window, in milliseconds (docs/rules.md, "Counter and window"). */
export const windowLength = 60_000

/** The minimum time between two sweeps, in milliseconds (docs/rules.md, "Sweep"). */
export const sweepInterval = 60_000

// How much longer than its window a counter is kept after its last request, in milliseconds (docs/rules.md, "Sweep").
const retentionAfterWindow = 60_000

/** How long a counter is kept after its last request, in milliseconds. */
export function counterRetention (window: number): number {
  return window + retentionAfterWindow
}

const never = -Infinity

/** A quota counter: what was admitted in a fixed window (docs/rules.md, "Counter and window"). All times are monotonic milliseconds. */
export class Counter {
  // The times start as doubles because V8 then updates them in place. A field that changes from a small integer to a double would be
  // reallocated on each write, and the change would deoptimize compiled code.

  /** What was admitted in the current window: requests or model tokens. */
  count = 0
  /** Start of the current window; -Infinity before the first `acquire`. */
  windowStart = never
  /** Time of the most recent request that reached this counter, admitted or not. */
  lastSeen = never

  constructor (now: number) {
    this.lastSeen = now
  }

  /** Runs the acquire step. Returns true and adds the cost if the count is below the limit. */
  acquire (now: number, window: number, limit: number, cost: number): boolean {
    this.lastSeen = now
    if (now - this.windowStart >= window) {
      this.count = 0
      this.windowStart = now
    }
    if (this.count >= limit) return false
    this.count = Math.min(this.count + cost, Number.MAX_SAFE_INTEGER)
    return true
  }
}
