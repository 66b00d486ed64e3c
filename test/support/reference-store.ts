// The rules of docs/rules.md, "Store", written plainly and without the code of lib. Stores are
// compared with it step by step.
import type {
  Acquisition,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState,
  Settled
} from '../../lib/store/store.js'
import type { QuotaStoreContractOptions } from '../../lib/testing.js'

const largest = Number.MAX_SAFE_INTEGER

/**
 * What is counted in one window, or the concurrent requests of a caller, which are a window without
 * a length that never ends.
 */
export interface Tally {
  count: number
  readonly start: number
  readonly length: number | null
  readonly end: number | null
  readonly entries: Entry[]
}

/** What an acquisition counted and holds in its window. */
export interface Entry {
  readonly demand: Demand
  readonly tally: Tally
  readonly acquiredAt: number
  readonly counted: number
  held: number
  /** Whether it is a place that is free again. */
  isFree: boolean
  /** The texts of its settlements. */
  readonly texts: Set<string>
}

/** A counter: a caller's own one or the overflow counter. */
export interface Counter {
  lastSeen: number
  tally?: Tally
}

/**
 * The counters of one quota. The concurrent requests of each caller are counters as well, which no
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
  /** By receipt. */
  readonly entries = new Map<unknown, Entry>()

  constructor ({ clock, maxTrackedCallers }: QuotaStoreContractOptions) {
    this.clock = clock
    this.maxTrackedCallers = maxTrackedCallers
  }

  acquire (demands: readonly Demand[]): readonly Acquisition[] {
    const reached = demands.map((demand) => {
      const { tally, overflow } = this.reach(demand)
      return { demand, tally, overflow, admitted: this.hasRoom(tally.count, demand) }
    })
    const isAdmitted = reached.every(({ admitted }) => admitted)
    const alone = reached.map(({ demand, tally }) => this.grant(tally.count, demand))
    return reached.map(({ demand, tally, overflow, admitted }) => {
      const granted = isAdmitted ? this.grantBeside(demand, demands, alone) : 0
      const counted = isAdmitted ? granted : this.rejectedAmount(demand, admitted)
      const entry: Entry = {
        demand,
        tally,
        acquiredAt: this.clock(),
        counted,
        held: demand.isEstimate ? granted : 0,
        isFree: false,
        texts: new Set()
      }
      this.add(entry)
      const receipt = `receipt ${this.entries.size}`
      this.entries.set(receipt, entry)
      return {
        admitted,
        granted,
        ...this.stateOf(tally),
        ...(overflow && { overflow }),
        ...(isAdmitted && { receipt })
      }
    })
  }

  /** The window that a demand finds open or opens. */
  reach (demand: Demand): { tally: Tally; overflow: boolean } {
    const { counters, callerKey, window, end } = demand
    const quota = this.quotaOf(counters)
    if (window !== null) this.sweep(quota, window)
    const own = quota.counters.get(callerKey) ?? this.create(quota, callerKey, window)
    const counter = own ?? quota.overflow
    counter.lastSeen = this.clock()
    if (counter.tally === undefined || !this.isOpen(counter.tally, demand.start)) {
      counter.tally = { count: 0, start: this.clock(), length: window, end, entries: [] }
    }
    return { tally: counter.tally, overflow: own === undefined }
  }

  create (quota: Quota, callerKey: string, window: number | null): Counter | undefined {
    if (window !== null && quota.counters.size >= this.maxTrackedCallers) return undefined
    const counter = { lastSeen: this.clock() }
    quota.counters.set(callerKey, counter)
    return counter
  }

  /** @param day When the day begins for which the window is asked for. */
  isOpen ({ start, length, end }: Tally, day: number | null): boolean {
    if (length === null) return true
    return end === null || day === null ? this.clock() - start < length : day < end
  }

  hasRoom (count: number, { limit, least }: Demand): boolean {
    if (limit === largest) return true
    return least === 0 ? count < limit : count <= limit - least
  }

  /** What a demand that has room is granted. */
  grant (count: number, { limit, most }: Demand): number {
    if (limit === largest) return most
    return limit - count < most ? limit - count : most
  }

  /** @param alone What each demand of the request would be granted alone. */
  grantBeside (demand: Demand, demands: readonly Demand[], alone: readonly number[]): number {
    const ofUnit = alone.filter((_, index) => demands[index]?.unit === demand.unit)
    const lowest = Math.min(...ofUnit)
    if (demand.least === demand.most) return demand.most
    return lowest < demand.least ? demand.least : lowest
  }

  /** What is counted for a demand of a request that is rejected. */
  rejectedAmount (_demand: Demand, _hasRoom: boolean): number {
    return 0
  }

  add (entry: Entry): void {
    const { tally, counted } = entry
    tally.count = counted > largest - tally.count ? largest : tally.count + counted
    tally.entries.push(entry)
  }

  /** What is held now, in this period of ten minutes and from the one before. */
  heldBy ({ count, length, entries }: Tally): number {
    if (length === null) return count
    let sum = 0
    for (const { held, acquiredAt } of entries) {
      if (this.isHeldNow(acquiredAt)) sum += held
    }
    return sum > count ? count : sum
  }

  isHeldNow (acquiredAt: number): boolean {
    return Math.floor(this.clock() / 600_000) - Math.floor(acquiredAt / 600_000) <= 1
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
    return new Map([...counters].filter(([, counter]) => this.isKept(counter, window)))
  }

  isKept ({ lastSeen, tally }: Counter, window: number): boolean {
    const end = tally?.end ?? null
    if (end !== null) return Date.now() < end + 60_000
    return this.clock() - lastSeen < window + 60_000
  }

  settle (receipt: unknown, less: Settled, once?: string): boolean {
    const entry = this.entries.get(receipt)
    if (entry === undefined) throw new TypeError('the store has given no such receipt')
    if (once !== undefined && !this.isFirst(entry, once)) return false
    this.lower(entry, less.count)
    this.letGo(entry, less.held)
    return true
  }

  /** Whether a settlement with this text is applied. */
  isFirst (entry: Entry, once: string): boolean {
    const { counters, callerKey } = entry.demand
    const quota = this.quotaOf(counters)
    const now = [quota.counters.get(callerKey)?.tally, quota.overflow.tally]
    if (!now.includes(entry.tally) || !this.isOpen(entry.tally, Date.now())) return false
    if (entry.texts.has(once)) return false
    entry.texts.add(once)
    return true
  }

  /** Takes back what was not used. A place is freed once. */
  lower (entry: Entry, less: number): void {
    const { tally, demand, isFree } = entry
    if (demand.window === null && isFree) return
    if (less > 0) entry.isFree = true
    tally.count = less > tally.count ? 0 : tally.count - less
  }

  letGo (entry: Entry, less: number): void {
    entry.held = less > entry.held ? 0 : entry.held - less
  }

  peek (demand: Demand): QuotaCount | null {
    const { counters, callerKey, window } = demand
    const quota = this.quotaOf(counters)
    if (window === null) {
      const count = quota.counters.get(callerKey)?.tally?.count ?? 0
      return { count, held: count, windowRemaining: null }
    }
    const left = this.isSweepDue(quota) ? this.kept(quota, window) : quota.counters
    // The window of a counter that the sweep removes is over.
    const own = quota.counters.get(callerKey)
    const counter = own ?? (left.size >= this.maxTrackedCallers ? quota.overflow : undefined)
    return counter?.tally !== undefined && this.isOpen(counter.tally, demand.start)
      ? { ...this.stateOf(counter.tally), ...(own === undefined && { overflow: true }) }
      : null
  }

  forget (counters: string, callerKey: string): void {
    const quota = this.quotaOf(counters)
    if (quota.counters.get(callerKey)?.tally?.length !== null) quota.counters.delete(callerKey)
  }

  list (counters: string): CallerPage {
    const callers = [...this.quotaOf(counters).counters].flatMap(([callerKey, { tally }]) =>
      tally !== undefined &&
      this.isOpen(tally, Date.now()) &&
      (tally.length !== null || tally.count > 0)
        ? [{ callerKey, ...this.stateOf(tally) }]
        : []
    )
    return { callers, cursor: null }
  }

  inspect (counters: string): QuotaStoreState {
    const { counters: callers, sweeps } = this.quotaOf(counters)
    return { trackedCallers: callers.size, sweeps }
  }

  clearCounters (): void {
    this.quotas.clear()
  }

  quotaOf (counters: string): Quota {
    const quota = this.quotas.get(counters) ?? new Quota()
    this.quotas.set(counters, quota)
    return quota
  }

  stateOf (tally: Tally): Omit<QuotaCount, 'overflow'> {
    const { count, start, length, end } = tally
    return {
      count,
      held: this.heldBy(tally),
      windowRemaining: length === null || end !== null ? null : length - (this.clock() - start),
      ...(end !== null && { end })
    }
  }
}
