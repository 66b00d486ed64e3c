import type { Counted } from '../counter.js'
import type { QuotaCount } from '../store.js'

/**
 * What is counted in one window of a counter, or for a caller in flight. An acquisition keeps the
 * window that counted it: what it settles there changes no later window.
 */
export class Window implements Counted {
  count = 0
  held = 0

  /**
   * @param opened When the window opened, in monotonic milliseconds.
   * @param length The length of the window in milliseconds; null in flight, which never ends.
   * @param end When the day or month of a time zone ends, in milliseconds since the epoch; null if
   *   the window has a fixed length.
   */
  constructor (
    readonly opened: number,
    readonly length: number | null,
    readonly end: number | null
  ) {}

  /**
   * Whether a request finds this window open, instead of opening one that ends at `end`, or one of
   * a fixed length if that is null.
   */
  isOpen (now: number, end: number | null): boolean {
    // The days of a quota can be those of a time zone after a change of its definition.
    if ((this.end === null) !== (end === null)) return false
    if (this.end !== null && end !== null) return end <= this.end
    return this.length === null || now - this.opened < this.length
  }

  /** The time until a window of a fixed length ends, in milliseconds; null for others. */
  remaining (now: number): number | null {
    if (this.length === null || this.end !== null) return null
    return this.length - (now - this.opened)
  }

  /** What a store says of this window. */
  stateAt (now: number): Omit<QuotaCount, 'overflow'> {
    const state = {
      count: this.count,
      held: this.held,
      windowRemaining: this.remaining(now)
    }
    return this.end === null ? state : { ...state, end: this.end }
  }
}
