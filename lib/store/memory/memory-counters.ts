import { Counter, counterRetention, sweepInterval, type Window } from '../counter.js'
import type { CallerCount, QuotaCount, QuotaStoreState } from '../store.js'
import { TrackedCallers } from './tracked-callers.js'

const never = -Infinity

/** The counters of one quota: those of its tracked callers and the overflow counter. Times are monotonic milliseconds. */
export class MemoryCounters {
  readonly #callers: TrackedCallers
  readonly #overflow = new Counter()
  #sweptAt = never
  #sweeps = 0

  /** @param cap How many callers can have a counter of their own. */
  constructor (cap: number) {
    this.#callers = new TrackedCallers(cap)
  }

  /** Returns the counter that a request reaches now: the caller's own one, or undefined for the overflow counter. Runs a sweep first if it is due. */
  own (callerKey: string, now: number, length: number): Counter | undefined {
    if (now - this.#sweptAt >= sweepInterval) this.#sweep(now, length)
    return this.#callers.findOrAdd(callerKey)
  }

  get overflow (): Counter {
    return this.#overflow
  }

  /** Returns the state of the counter that a request would reach now; null if it would open a new window. */
  peek (callerKey: string, now: number, length: number, end: number | null): QuotaCount | null {
    const own = this.#callers.get(callerKey)
    const wouldSweep = now - this.#sweptAt >= sweepInterval && this.#isExpired(this.#callers.oldest, now, length)
    const counter = own ?? (this.#callers.isFull && !wouldSweep ? this.#overflow : undefined)
    const window = counter?.window
    return window?.isOpen(now, end) === true ? { ...stateOf(window, now), overflow: own === undefined } : null
  }

  forget (callerKey: string): void {
    const counter = this.#callers.get(callerKey)
    if (counter !== undefined) this.#callers.remove(counter)
  }

  /** Returns the callers with a counter of their own whose window is open. */
  list (now: number): CallerCount[] {
    const callers: CallerCount[] = []
    for (const { callerKey, window } of this.#callers.all()) {
      if (window?.isOpen(now, Date.now() + 1) === true) callers.push({ callerKey, ...stateOf(window, now) })
    }
    return callers
  }

  inspect (): QuotaStoreState {
    return { trackedCallers: this.#callers.size, sweeps: this.#sweeps }
  }

  #sweep (now: number, length: number): void {
    // The first request only starts the interval, so it is not counted as a sweep.
    if (this.#sweptAt !== never) this.#sweeps += 1
    this.#sweptAt = now
    while (this.#isExpired(this.#callers.oldest, now, length)) this.#callers.remove(this.#callers.oldest)
  }

  #isExpired ({ lastSeen }: Counter, now: number, length: number): boolean {
    return now - lastSeen >= counterRetention(length)
  }
}

/** What a store says of a window: when it ends, or how long it remains open. */
function stateOf (window: Window, now: number): Pick<QuotaCount, 'count' | 'windowRemaining' | 'end'> {
  const { count, end } = window
  return end === null ? { count, windowRemaining: window.remaining(now) } : { count, windowRemaining: null, end }
}
