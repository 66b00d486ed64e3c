import { counterRetention, sweepInterval } from '../counter.js'
import type { CallerCount, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import { wallClock } from '../../wall-clock.js'
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
    if (now >= this.#sweepIsDueAt) this.#sweep(now, length)
    const own = this.#byCaller.get(callerKey)
    const overflows = own === undefined && this.#byCaller.size >= this.#cap
    const latest = overflows ? this.#overflow : own
    if (latest?.isOpen(now, start) === true) {
      latest.lastSeen = now
      return latest
    }
    const opened = new MemoryWindow(length, end, now, overflows)
    if (overflows) this.#overflow = opened
    else this.#byCaller.set(callerKey, opened)
    return opened
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
      !(now >= this.#sweepIsDueAt && this.#hasExpired(now, length))
    const latest = overflows ? this.#overflow : own
    return latest?.isOpen(now, start) === true ? latest.stateAt(now) : null
  }

  forget (callerKey: string): void {
    this.#byCaller.delete(callerKey)
  }

  /** Returns the callers with a counter of their own whose window is open. */
  list (now: number): CallerCount[] {
    const callers: CallerCount[] = []
    // A window with an end is open until then, whatever the time zone of the next demand.
    const start = wallClock()
    for (const [callerKey, window] of this.#byCaller) {
      if (!window.isOpen(now, start)) continue
      const { overflow, ...state } = window.stateAt(now)
      callers.push({ callerKey, ...state })
    }
    return callers
  }

  inspect (): QuotaStoreState {
    return { trackedCallers: this.#byCaller.size, sweeps: this.#sweeps }
  }

  #sweep (now: number, length: number): void {
    // The first request only starts the interval, so it is not counted as a sweep.
    if (this.#sweepIsDueAt !== beforeFirstRequest) this.#sweeps += 1
    this.#sweepIsDueAt = now + sweepInterval
    for (const [callerKey, window] of this.#byCaller) {
      if (isExpired(window, now, length)) this.#byCaller.delete(callerKey)
    }
  }

  #hasExpired (now: number, length: number): boolean {
    for (const window of this.#byCaller.values()) {
      if (isExpired(window, now, length)) return true
    }
    return false
  }
}

function isExpired ({ lastSeen }: MemoryWindow, now: number, length: number): boolean {
  return now - lastSeen >= counterRetention(length)
}
