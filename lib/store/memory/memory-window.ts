import { counterRetention, hasRoom, keptUntil, periodOf, unlimited } from '../counter.js'
import type { Acquisition, Demand, QuotaCount, Settled } from '../store.js'
import { wallClock } from '../../wall-clock.js'
import { nextId, type WindowReceipt } from './memory-receipt.js'

/** What a new window is. */
export interface MemoryWindowOptions {
  /** The length of the quota's longest window, in milliseconds. */
  readonly length: number
  /** When the day, week or month of a time zone starts, in milliseconds since the epoch. */
  readonly start: number | null
  /** When it ends; null if the window ends after its length. */
  readonly end: number | null
  /** Monotonic milliseconds. */
  readonly openedAt: number
  /** Whether it is a window of the overflow counter. */
  readonly overflow: boolean
}

/** What only the results of some windows have. */
interface RareFields {
  end?: number
  overflow?: boolean
}

/**
 * A window of a caller's own counter or of the overflow counter (docs/rules.md, "Counter and
 * window"). Times are monotonic milliseconds, except `end`.
 */
export class MemoryWindow {
  readonly id = nextId()
  /** When the day, week or month of a time zone ends, in milliseconds since the epoch. */
  readonly end: number | null
  readonly overflow: boolean
  /** The time of the latest request that reached this window, admitted or not. */
  lastSeen: number
  /** What is counted in this window. */
  count = 0
  readonly #openedAt: number
  readonly #length: number
  /** Until when the counter is kept, in milliseconds since the epoch; null if it has no `end`. */
  readonly #keptUntil: number | null
  // What is held of what was admitted in this period, and in the one before.
  #period = 0
  #held = 0
  #heldBefore = 0
  // The settlements that are applied only once. Most windows have none.
  #settledOnce: Set<string> | undefined

  constructor ({ length, start, end, openedAt, overflow }: MemoryWindowOptions) {
    this.end = end
    this.overflow = overflow
    this.lastSeen = openedAt
    this.#openedAt = openedAt
    this.#length = length
    this.#keptUntil = start === null || end === null ? null : keptUntil(start, end, length)
  }

  /**
   * Whether a demand finds this window open.
   *
   * @param start The `start` of the demand.
   */
  isOpenFor (start: number | null, now: number): boolean {
    if (this.end !== null && start !== null) return start < this.end
    return now - this.#openedAt < this.#length
  }

  /** Whether the window has ended, whatever the time zone of the next demand. */
  isOver (now: number): boolean {
    return !this.isOpenFor(this.end === null ? null : wallClock(), now)
  }

  /**
   * Whether a sweep removes the counter.
   *
   * @param length The length of the quota's longest window.
   */
  isExpired (length: number, now: number): boolean {
    if (this.#keptUntil !== null) return wallClock() >= this.#keptUntil
    return now - this.lastSeen >= counterRetention(length)
  }

  /** Returns the milliseconds until the window ends; null if it has an `end`. */
  remaining (now: number): number | null {
    return this.end === null ? this.#length - (now - this.#openedAt) : null
  }

  /** Counts what a demand is granted. */
  admit ({ counters, callerKey, isEstimate }: Demand, granted: number, now: number): Acquisition {
    const period = periodOf(now)
    this.count = Math.min(this.count + granted, unlimited)
    if (isEstimate) this.#hold(granted, period)
    const receipt: WindowReceipt = {
      counters,
      callerKey: this.overflow ? null : callerKey,
      window: this.id,
      period
    }
    const acquisition: Acquisition = {
      admitted: true,
      granted,
      receipt,
      count: this.count,
      held: this.#heldIn(period),
      windowRemaining: this.remaining(now)
    }
    this.#addRareFields(acquisition)
    return acquisition
  }

  /** Counts nothing of a demand of a rejected request. */
  reject (demand: Demand, now: number): Acquisition {
    const acquisition: Acquisition = {
      admitted: hasRoom(this.count, demand),
      granted: 0,
      count: this.count,
      held: this.#heldIn(periodOf(now)),
      windowRemaining: this.remaining(now)
    }
    this.#addRareFields(acquisition)
    return acquisition
  }

  /**
   * Takes back a part of what was counted, and of what was held.
   *
   * @param period The period that admitted it. If it no longer holds, only the count changes.
   * @param once If given, a second settlement with this text changes nothing.
   * @returns Whether it was applied.
   */
  settle ({ count, held }: Settled, period: number, once: string | undefined): boolean {
    if (once !== undefined && !this.#isFirst(once)) return false
    this.count = Math.max(0, this.count - count)
    if (period === this.#period) this.#held = Math.max(0, this.#held - held)
    if (period === this.#period - 1) this.#heldBefore = Math.max(0, this.#heldBefore - held)
    return true
  }

  stateAt (now: number): QuotaCount {
    const state: QuotaCount = {
      count: this.count,
      held: this.#heldIn(periodOf(now)),
      windowRemaining: this.remaining(now)
    }
    this.#addRareFields(state)
    return state
  }

  /**
   * Adds to a result what only some windows have. Each result is written out and then completed:
   * copied with spreads, it took 150 ns in place of 25.
   */
  #addRareFields (result: RareFields): void {
    if (this.end !== null) result.end = this.end
    if (this.overflow) result.overflow = true
  }

  #heldIn (period: number): number {
    let held = 0
    if (period === this.#period) held = this.#held + this.#heldBefore
    if (period === this.#period + 1) held = this.#held
    // A count stops at the largest integer, so that more could be held than is counted.
    return Math.min(held, this.count)
  }

  #hold (granted: number, period: number): void {
    if (period !== this.#period) {
      this.#heldBefore = period === this.#period + 1 ? this.#held : 0
      this.#held = 0
      this.#period = period
    }
    this.#held = Math.min(this.#held + granted, unlimited)
  }

  #isFirst (text: string): boolean {
    this.#settledOnce ??= new Set()
    if (this.#settledOnce.has(text)) return false
    this.#settledOnce.add(text)
    return true
  }
}
