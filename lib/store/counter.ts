import { windowLength } from './window.js'

/**
 * A quota counter: the requests admitted in a fixed window of 60 seconds (specification, sections 2 and 3).
 * All times are monotonic milliseconds.
 */
export class Counter {
  /** Requests admitted in the current window. */
  count = 0
  /** Start of the current window. */
  windowStart: number
  /** Time of the most recent request that reached this counter, admitted or not. */
  lastSeen: number

  constructor (now: number) {
    this.windowStart = now
    this.lastSeen = now
  }

  /** The acquire step: true when the request is admitted, and then counted. */
  acquire (now: number, limit: number): boolean {
    this.lastSeen = now
    if (now - this.windowStart >= windowLength) {
      this.count = 0
      this.windowStart = now
    }
    if (this.count >= limit) return false
    this.count += 1
    return true
  }

  /** Milliseconds until the current window ends; more than 0 right after `acquire`. */
  windowRemaining (now: number): number {
    return windowLength - (now - this.windowStart)
  }
}
