import { windowRemaining } from './window.js'

const never = -Infinity

/**
 * A quota counter: the requests admitted in a fixed window (docs/rules.md, "Counter and window"). All times are monotonic
 * milliseconds.
 */
export class Counter {
  // The times start as doubles because V8 then updates them in place. A field that changes from a small integer
  // to a double would be reallocated on each write, and the change would deoptimize compiled code.

  /** Requests admitted in the current window. */
  count = 0
  /** Start of the current window; -Infinity before the first `acquire`. */
  windowStart = never
  /** Time of the most recent request that reached this counter, admitted or not. */
  lastSeen = never

  constructor (now: number) {
    this.lastSeen = now
  }

  /** Runs the acquire step. Returns true, and counts the request, if it is admitted. */
  acquire (now: number, limit: number): boolean {
    this.lastSeen = now
    if (this.windowRemaining(now) <= 0) {
      this.count = 0
      this.windowStart = now
    }
    if (this.count >= limit) return false
    this.count += 1
    return true
  }

  /** Milliseconds until the current window ends: more than 0 right after `acquire`, 0 or less when the window is over. */
  windowRemaining (now: number): number {
    return windowRemaining(this.windowStart, now)
  }
}
