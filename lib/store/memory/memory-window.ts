import { grantOf, hasRoom, periodOf, unlimited } from '../counter.js'
import type { Acquisition, Demand, QuotaCount, QuotaStore } from '../store.js'

/**
 * A window of a caller's own counter or of the overflow counter (docs/rules.md, "Counter and
 * window"). Times are monotonic milliseconds, except `end`.
 */
export class MemoryWindow {
  count = 0
  /** The time of the latest request that reached this window, admitted or not. */
  lastSeen: number
  /** When the day, week or month of a time zone ends, in milliseconds since the epoch. */
  readonly end: number | null
  readonly overflow: boolean
  readonly #openedAt: number
  readonly #length: number
  // What is held of what was admitted in this period, and in the one before.
  #period = 0
  #held = 0
  #heldBefore = 0

  constructor (length: number, end: number | null, openedAt: number, overflow: boolean) {
    this.lastSeen = openedAt
    this.end = end
    this.overflow = overflow
    this.#openedAt = openedAt
    this.#length = length
  }

  /**
   * Whether a demand finds this window open.
   *
   * @param start The `start` of the demand.
   */
  isOpen (now: number, start: number | null): boolean {
    if (this.end !== null && start !== null) return start < this.end
    return now - this.#openedAt < this.#length
  }

  /** Returns the milliseconds until the window ends; null if it has an `end`. */
  remaining (now: number): number | null {
    return this.end === null ? this.#length - (now - this.#openedAt) : null
  }

  /** Returns what is held in a period. */
  heldIn (period: number): number {
    let held = 0
    if (period === this.#period) held = this.#held + this.#heldBefore
    if (period === this.#period + 1) held = this.#held
    // A count stops at the largest integer, so that more could be held than is counted.
    return Math.min(held, this.count)
  }

  /** Counts what was granted. */
  add (granted: number): void {
    this.count = Math.min(this.count + granted, unlimited)
  }

  /** Holds an estimate that was granted in the present period. */
  hold (granted: number, period: number): void {
    if (period !== this.#period) {
      this.#heldBefore = period === this.#period + 1 ? this.#held : 0
      this.#held = 0
      this.#period = period
    }
    this.#held = Math.min(this.#held + granted, unlimited)
  }

  /** Takes back a part of what was counted. */
  lower (excess: number): void {
    this.count = Math.max(0, this.count - excess)
  }

  /** Holds less of what was granted in a period, unless that holds nothing any more. */
  release (held: number, period: number): void {
    if (period === this.#period) this.#held = Math.max(0, this.#held - held)
    if (period === this.#period - 1) this.#heldBefore = Math.max(0, this.#heldBefore - held)
  }

  stateAt (now: number): QuotaCount {
    const { count, end, overflow } = this
    const held = this.heldIn(periodOf(now))
    const state = { count, held, windowRemaining: this.remaining(now), overflow }
    return end === null ? state : { ...state, end }
  }
}

/** The acquisition of a demand on a window. It is settled in this window and in no other. */
export class WindowAcquisition implements Acquisition {
  readonly admitted: boolean
  readonly windowRemaining: number | null
  readonly overflow: boolean
  granted = 0
  count = 0
  held = 0
  declare readonly end?: number
  readonly #store: QuotaStore
  readonly #demand: Demand
  readonly #window: MemoryWindow
  readonly #period: number
  // What it counts and holds now. Nothing if its request was rejected.
  #counted = 0
  #held = 0

  constructor (
    store: QuotaStore,
    demand: Demand,
    window: MemoryWindow,
    now: number,
    period: number
  ) {
    this.#store = store
    this.admitted = hasRoom(window.count, demand)
    this.windowRemaining = window.remaining(now)
    this.overflow = window.overflow
    if (window.end !== null) this.end = window.end
    this.#demand = demand
    this.#window = window
    this.#period = period
  }

  /** Counts what the demand is granted, if all demands of its request have room. */
  decide (isAdmitted: boolean): void {
    const window = this.#window
    if (isAdmitted) {
      this.granted = grantOf(window.count, this.#demand)
      this.#counted = this.granted
      window.add(this.granted)
      if (this.#demand.isEstimate) {
        this.#held = this.granted
        window.hold(this.granted, this.#period)
      }
    }
    this.count = window.count
    this.held = window.heldIn(this.#period)
  }

  /** Whether this store has returned it. */
  isOf (store: QuotaStore): boolean {
    return this.#store === store
  }

  settle (used: number): void {
    const excess = Math.max(0, this.#counted - used)
    this.#window.lower(excess)
    this.#counted -= excess
    this.#window.release(this.#held, this.#period)
    this.#held = 0
  }
}
