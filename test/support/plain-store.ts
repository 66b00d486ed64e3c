import type { Acquisition, Entry as InFlight, QuotaCount, QuotaStore } from '../../lib/store/store.js'
import type { QuotaStoreContractOptions } from '../../lib/testing.js'

export interface Entry { count: number, windowStart: number, lastSeen: number }

/** The model of the rules in docs/rules.md: a simple store, written without the code of lib, with which stores are compared. Subclasses break rules. */
export class PlainStore implements QuotaStore {
  readonly clock: () => number
  readonly maxTrackedCallers: number
  readonly quotas = new Map<string, PlainStore>()
  readonly places = new Map<string, number>()
  entries = new Map<string, Entry>()
  shared: Entry | undefined
  sweptAt: number | undefined
  sweeps = 0
  windowLength = 60_000
  retention = 120_000
  interval = 60_000

  constructor ({ clock, maxTrackedCallers }: QuotaStoreContractOptions) {
    this.clock = clock
    this.maxTrackedCallers = maxTrackedCallers
  }

  acquire (callerKey: string, limit: number, cost = 1): Acquisition {
    const now = this.clock()
    this.sweep(now)
    const own = this.entries.get(callerKey) ?? this.create(callerKey, now)
    const entry = own ?? this.overflow(callerKey, now)
    if (now - entry.windowStart >= this.windowLength) Object.assign(entry, { count: 0, windowStart: now })
    const admitted = this.admits(entry, limit)
    this.count(entry, admitted, cost)
    this.touch(entry, now, admitted, cost)
    return { admitted, count: entry.count, windowRemaining: this.windowLength - (now - entry.windowStart), overflow: own === undefined }
  }

  admits (entry: Entry, limit: number): boolean {
    return entry.count < limit
  }

  count (entry: Entry, admitted: boolean, cost: number): void {
    if (admitted) entry.count = Math.min(entry.count + cost, Number.MAX_SAFE_INTEGER)
  }

  touch (entry: Entry, now: number, _admitted: boolean, _cost: number): void {
    entry.lastSeen = now
  }

  create (callerKey: string, now: number): Entry | undefined {
    if (!this.mayTrack()) return undefined
    const entry = { count: 0, windowStart: now, lastSeen: now }
    this.entries.set(callerKey, entry)
    return entry
  }

  mayTrack (): boolean {
    return this.entries.size < this.maxTrackedCallers
  }

  overflow (_callerKey: string, now: number): Entry {
    this.shared ??= { count: 0, windowStart: now, lastSeen: now }
    return this.shared
  }

  sweep (now: number): void {
    this.sweptAt ??= now
    if (now - this.sweptAt < this.interval) return
    this.entries = this.swept(now)
    this.sweptAt = now
    this.sweeps += 1
  }

  /** The counters that remain after a due sweep. */
  swept (now: number): Map<string, Entry> {
    if (this.sweptAt === undefined || now - this.sweptAt < this.interval) return this.entries
    return new Map([...this.entries].filter(([, { lastSeen }]) => now - lastSeen < this.retention))
  }

  quota (name: string, window: number): PlainStore {
    const { clock, maxTrackedCallers } = this
    const quota: PlainStore = this.quotas.get(name) ?? Reflect.construct(this.constructor, [{ clock, maxTrackedCallers }])
    quota.windowLength = window
    quota.retention = window + 60_000
    this.quotas.set(name, quota)
    return quota
  }

  enter (callerKey: string, limit: number): InFlight | Promise<InFlight> {
    const count = this.placesOf(callerKey)
    if (count >= limit) return { admitted: false, count }
    this.places.set(callerKey, count + 1)
    return { admitted: true, count: count + 1, leave: () => this.leave(callerKey) }
  }

  leave (callerKey: string): void | Promise<void> {
    this.places.set(callerKey, this.placesOf(callerKey) - 1)
  }

  placesOf (callerKey: string): number {
    return this.places.get(callerKey) ?? 0
  }

  peek (callerKey: string): QuotaCount | null {
    const now = this.clock()
    const entries = this.swept(now)
    const own = entries.get(callerKey)
    const entry = own ?? (entries.size < this.maxTrackedCallers ? undefined : this.shared)
    if (entry === undefined || now - entry.windowStart >= this.windowLength) return null
    return { count: entry.count, windowRemaining: this.windowLength - (now - entry.windowStart), overflow: own === undefined }
  }

  forget (callerKey: string): void {
    this.entries.delete(callerKey)
  }

  clearCounters (): void {
    this.entries.clear()
    this.shared = undefined
    this.sweptAt = undefined
    this.sweeps = 0
    for (const quota of this.quotas.values()) quota.clearCounters()
  }

  inspect () {
    return { trackedCallers: this.entries.size, sweeps: this.sweeps }
  }
}
