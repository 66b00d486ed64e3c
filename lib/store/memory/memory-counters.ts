import { sweepInterval } from '../counter.js'
import type { CallerCount, Demand, QuotaCount, QuotaStoreState, Settled } from '../store.js'
import type { WindowReceipt } from './memory-receipt.js'
import { MemoryWindow } from './memory-window.js'

const beforeFirstRequest = -Infinity

/**
 * The counters of one quota: those of its tracked callers and the overflow counter. A counter is
 * kept as its latest window. Times are monotonic milliseconds.
 */
export class MemoryCounters {
  readonly #cap: number
  readonly #byCaller = new Map<string, MemoryWindow>()
  #overflow: MemoryWindow | undefined
  #sweepIsDueAt = beforeFirstRequest
  #sweeps = 0

  /** @param cap How many callers can have a counter of their own. */
  constructor (cap: number) {
    this.#cap = cap
  }

  /**
   * Returns the window that a request finds open or opens now, on the caller's own counter or on
   * the overflow counter. Runs a sweep first if it is due.
   *
   * @param length The length of the quota's longest window.
   */
  reach ({ callerKey, start, end }: Demand, length: number, now: number): MemoryWindow {
    if (now >= this.#sweepIsDueAt) this.#sweep(length, now)
    const own = this.#byCaller.get(callerKey)
    const overflow = own === undefined && this.#byCaller.size >= this.#cap
    const latest = overflow ? this.#overflow : own
    if (latest?.isOpenFor(start, now) === true) {
      latest.lastSeen = now
      return latest
    }
    const opened = new MemoryWindow({ length, start, end, openedAt: now, overflow })
    if (overflow) this.#overflow = opened
    else this.#byCaller.set(callerKey, opened)
    return opened
  }

  /**
   * Settles in the window of the receipt, which can stay open after its end. Returns whether it was
   * applied.
   *
   * @param once As that of `QuotaStore.settle`: only until the end.
   */
  settle (receipt: WindowReceipt, less: Settled, once: string | undefined, now: number): boolean {
    const { callerKey, window: id, period } = receipt
    const latest = callerKey === null ? this.#overflow : this.#byCaller.get(callerKey)
    if (latest?.id !== id || (once !== undefined && latest.isOver(now))) return false
    return latest.settle(less, period, once)
  }

  /**
   * Returns the state of the window that a request would find open now; null if it would open a
   * new one.
   */
  peek ({ callerKey, start }: Demand, length: number, now: number): QuotaCount | null {
    const own = this.#byCaller.get(callerKey)
    const overflows =
      own === undefined &&
      this.#byCaller.size >= this.#cap &&
      !this.#wouldSweepMakeRoom(length, now)
    const latest = overflows ? this.#overflow : own
    return latest?.isOpenFor(start, now) === true ? latest.stateAt(now) : null
  }

  forget (callerKey: string): void {
    this.#byCaller.delete(callerKey)
  }

  /** Returns the callers with a counter of their own whose window is open. */
  list (now: number): CallerCount[] {
    const callers: CallerCount[] = []
    for (const [callerKey, window] of this.#byCaller) {
      if (!window.isOver(now)) callers.push({ callerKey, ...window.stateAt(now) })
    }
    return callers
  }

  inspect (): QuotaStoreState {
    return { trackedCallers: this.#byCaller.size, sweeps: this.#sweeps }
  }

  #sweep (length: number, now: number): void {
    // The first request only starts the interval, so it is not counted as a sweep.
    if (this.#sweepIsDueAt !== beforeFirstRequest) this.#sweeps += 1
    this.#sweepIsDueAt = now + sweepInterval
    for (const [callerKey, window] of this.#byCaller) {
      if (window.isExpired(length, now)) this.#byCaller.delete(callerKey)
    }
  }

  /** Whether the next request would run a sweep that removes a counter. */
  #wouldSweepMakeRoom (length: number, now: number): boolean {
    if (now < this.#sweepIsDueAt) return false
    for (const window of this.#byCaller.values()) {
      if (window.isExpired(length, now)) return true
    }
    return false
  }
}
