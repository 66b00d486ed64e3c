// The rules of docs/rules.md, "Store", written plainly and without the code of lib. Stores are
// compared with it step by step.
import type {
  Acquisition,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState
} from '../../lib/store/store.js'
import type { QuotaStoreContractOptions } from '../../lib/testing.js'

/**
 * What is counted in one window, or in flight, which is a window without a length that never ends.
 */
export interface Tally {
  count: number
  readonly start: number
  readonly length: number | null
  readonly end: number | null
}

/** A counter: a caller's own one or the overflow counter. */
export interface Counter {
  lastSeen: number
  tally?: Tally
}

/**
 * The counters of one quota. The requests of each caller in flight are counters as well, which no
 * sweep removes.
 */
class Quota {
  counters = new Map<string, Counter>()
  overflow: Counter = { lastSeen: 0 }
  sweptAt: number | undefined
  sweeps = 0
}

export class ReferenceStore implements Required<QuotaStore> {
  readonly clock: () => number
  readonly maxTrackedCallers: number
  readonly quotas = new Map<string, Quota>()
  readonly held = new WeakMap<Acquisition, { readonly tally: Tally; amount: number }>()

  constructor ({ clock, maxTrackedCallers }: QuotaStoreContractOptions) {
    this.clock = clock
    this.maxTrackedCallers = maxTrackedCallers
  }

  acquire (demands: readonly Demand[]): readonly Acquisition[] {
    const reached = demands.map((demand) => {
      const { tally, overflow } = this.reach(demand)
      return { demand, tally, overflow, admitted: this.hasRoom(tally.count, demand) }
    })
    const all = reached.every(({ admitted }) => admitted)
    return reached.map(({ demand, tally, overflow, admitted }) => {
      const amount = this.amount(demand, admitted, all)
      tally.count = Math.min(tally.count + amount, Number.MAX_SAFE_INTEGER)
      const acquisition = { admitted, ...this.stateOf(tally), overflow }
      this.held.set(acquisition, { tally, amount })
      return acquisition
    })
  }

  /** The window that a demand finds open or opens. */
  reach ({ counters, callerKey, window, end }: Demand): { tally: Tally; overflow: boolean } {
    const quota = this.quotaOf(counters)
    if (window !== null) this.sweep(quota, window)
    const own = quota.counters.get(callerKey) ?? this.create(quota, callerKey, window)
    const counter = own ?? quota.overflow
    counter.lastSeen = this.clock()
    if (counter.tally === undefined || !this.isOpen(counter.tally, end)) {
      counter.tally = { count: 0, start: this.clock(), length: window, end }
    }
    return { tally: counter.tally, overflow: own === undefined }
  }

  create (quota: Quota, callerKey: string, window: number | null): Counter | undefined {
    if (window !== null && quota.counters.size >= this.maxTrackedCallers) return undefined
    const counter = { lastSeen: this.clock() }
    quota.counters.set(callerKey, counter)
    return counter
  }

  isOpen ({ start, length, end }: Tally, demanded: number | null): boolean {
    if (length === null) return true
    return end === null || demanded === null ? this.clock() - start < length : demanded <= end
  }

  hasRoom (count: number, { limit, cost }: Demand): boolean {
    return limit === Number.MAX_SAFE_INTEGER || count + Math.max(cost, 1) <= limit
  }

  /** What is counted for a demand. */
  amount ({ cost }: Demand, _hasRoom: boolean, allHaveRoom: boolean): number {
    return allHaveRoom ? cost : 0
  }

  sweep (quota: Quota, window: number): void {
    const now = this.clock()
    quota.sweptAt ??= now
    if (!this.isSweepDue(quota)) return
    quota.counters = this.kept(quota, window)
    quota.sweptAt = now
    quota.sweeps += 1
  }

  isSweepDue ({ sweptAt }: Quota): boolean {
    return sweptAt !== undefined && this.clock() - sweptAt >= 60_000
  }

  /** The counters that a sweep keeps now. */
  kept ({ counters }: Quota, window: number): Map<string, Counter> {
    return new Map(
      [...counters].filter(([, { lastSeen }]) => this.clock() - lastSeen < window + 60_000)
    )
  }

  release (acquisition: Acquisition, amount: number): void {
    const held = this.held.get(acquisition)
    if (held === undefined) return
    const given = Math.min(amount, held.amount)
    held.amount -= given
    held.tally.count -= Math.min(given, held.tally.count)
  }

  peek ({ counters, callerKey, window, end }: Demand): QuotaCount | null {
    const quota = this.quotaOf(counters)
    const left =
      window !== null && this.isSweepDue(quota) ? this.kept(quota, window) : quota.counters
    const own = left.get(callerKey)
    const counter =
      own ?? (window !== null && left.size >= this.maxTrackedCallers ? quota.overflow : undefined)
    if (window === null) {
      return { count: own?.tally?.count ?? 0, windowRemaining: null, overflow: false }
    }
    return counter?.tally !== undefined && this.isOpen(counter.tally, end)
      ? { ...this.stateOf(counter.tally), overflow: own === undefined }
      : null
  }

  forget (callerKey: string, counters: string): void {
    const quota = this.quotaOf(counters)
    if (quota.counters.get(callerKey)?.tally?.length !== null) quota.counters.delete(callerKey)
  }

  list (counters: string): CallerPage {
    const callers = [...this.quotaOf(counters).counters].flatMap(([callerKey, { tally }]) =>
      tally !== undefined &&
      this.isOpen(tally, Date.now() + 1) &&
      (tally.length !== null || tally.count > 0)
        ? [{ callerKey, ...this.stateOf(tally) }]
        : []
    )
    return { callers, cursor: null }
  }

  inspect (counters: string): QuotaStoreState {
    const {
      counters: { size },
      sweeps
    } = this.quotaOf(counters)
    return { trackedCallers: size, sweeps }
  }

  clearCounters (): void {
    this.quotas.clear()
  }

  quotaOf (counters: string): Quota {
    const quota = this.quotas.get(counters) ?? new Quota()
    this.quotas.set(counters, quota)
    return quota
  }

  stateOf ({ count, start, length, end }: Tally): Omit<QuotaCount, 'overflow'> {
    return {
      count,
      windowRemaining: length === null || end !== null ? null : length - (this.clock() - start),
      ...(end !== null && { end })
    }
  }
}
