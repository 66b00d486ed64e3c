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

const largest = Number.MAX_SAFE_INTEGER

/**
 * What is counted in one window, or in flight, which is a window without a length that never ends.
 */
export interface Tally {
  count: number
  held: number
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

/** What an acquisition counts, and in which windows. */
export interface Entry {
  readonly demand: Demand
  /** The windows that counted it, the first one first. */
  readonly parts: { readonly tally: Tally; amount: number }[]
  /** What it holds in the first window. */
  held: number
}

export class ReferenceStore implements Required<QuotaStore> {
  readonly clock: () => number
  readonly maxTrackedCallers: number
  readonly quotas = new Map<string, Quota>()
  /** The acquisitions that were counted. */
  readonly entries = new WeakMap<Acquisition, Entry>()

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
      const granted = all ? this.grant(tally.count, demand) : 0
      const held = demand.isEstimate ? granted : 0
      this.add(tally, all ? granted : this.rejectedAmount(demand, admitted), held)
      const acquisition = { admitted, granted, ...this.stateOf(tally), overflow }
      if (all) {
        this.entries.set(acquisition, { demand, parts: [{ tally, amount: granted }], held })
      }
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
      counter.tally = { count: 0, held: 0, start: this.clock(), length: window, end }
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

  hasRoom (count: number, { limit, least }: Demand): boolean {
    if (limit === largest) return true
    return least === 0 ? count < limit : count <= limit - least
  }

  /** What a demand that has room is granted. */
  grant (count: number, { limit, most }: Demand): number {
    if (limit === largest) return most
    return limit - count < most ? limit - count : most
  }

  /** What is counted for a demand of a request that is rejected. */
  rejectedAmount (_demand: Demand, _hasRoom: boolean): number {
    return 0
  }

  add (tally: Tally, amount: number, held: number): void {
    tally.count = amount > largest - tally.count ? largest : tally.count + amount
    tally.held = held > largest - tally.held ? largest : tally.held + held
  }

  takeBack (tally: Tally, amount: number): void {
    tally.count = amount > tally.count ? 0 : tally.count - amount
    if (tally.held > tally.count) tally.held = tally.count
  }

  letGo (tally: Tally, held: number): void {
    tally.held = held > tally.held ? 0 : tally.held - held
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

  settle (acquisition: Acquisition, used: number, end: number | null): void {
    const entry = this.entries.get(acquisition)
    const first = entry?.parts[0]
    if (entry === undefined || first === undefined) return
    this.letGo(first.tally, entry.held)
    entry.held = 0
    const isPlace = entry.demand.window === null
    const difference = (isPlace ? 0 : used) - counted(entry)
    if (difference > 0) this.settleMore(entry, difference, end)
    else this.settleLess(entry, -difference)
  }

  /** Counts what was used beyond what is counted, in the window that is open now. */
  settleMore (entry: Entry, more: number, end: number | null): void {
    const { tally } = this.reach({ ...entry.demand, end })
    this.add(tally, more, 0)
    entry.parts.push({ tally, amount: more })
  }

  /** Takes back what was not used, from the last part first. */
  settleLess (entry: Entry, less: number): void {
    let left = less
    for (const part of [...entry.parts].reverse()) {
      const taken = part.amount < left ? part.amount : left
      this.takeBack(part.tally, taken)
      part.amount -= taken
      left -= taken
    }
  }

  peek ({ counters, callerKey, window, end }: Demand): QuotaCount | null {
    const quota = this.quotaOf(counters)
    const left =
      window !== null && this.isSweepDue(quota) ? this.kept(quota, window) : quota.counters
    const own = left.get(callerKey)
    const counter =
      own ?? (window !== null && left.size >= this.maxTrackedCallers ? quota.overflow : undefined)
    if (window === null) {
      const count = own?.tally?.count ?? 0
      return { count, held: own?.tally?.held ?? 0, windowRemaining: null, overflow: false }
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

  stateOf ({ count, held, start, length, end }: Tally): Omit<QuotaCount, 'overflow'> {
    return {
      count,
      held,
      windowRemaining: length === null || end !== null ? null : length - (this.clock() - start),
      ...(end !== null && { end })
    }
  }
}

/** What an acquisition counts in all of its windows. */
function counted ({ parts }: Entry): number {
  return parts.reduce((sum, { amount }) => sum + amount, 0)
}
