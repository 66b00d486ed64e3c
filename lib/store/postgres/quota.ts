import { RememberedRejections } from '../redis/remembered-rejections.js'
import type { Acquisition, Entry, QuotaCount, QuotaStore, QuotaStoreState } from '../store.js'
import type { Database } from './database.js'
import { Decisions, readAcquisition } from './decisions.js'
import type { Places } from './places.js'

/** What the quotas of a store share. */
export interface Shared {
  readonly database: Database
  readonly places: Places
  readonly maxTrackedCallers: number
  readonly rememberRefusals: boolean
  readonly clock: (() => number) | undefined
}

/** The counters of one quota. */
export class PostgresQuota implements QuotaStore {
  /** The caller cap: how many callers can have a counter of their own, in each quota. */
  readonly maxTrackedCallers: number
  readonly #shared: Shared
  readonly #name: string
  readonly #window: number
  readonly #decisions: Decisions
  readonly #rejections: RememberedRejections | undefined

  constructor (shared: Shared, name: string, window: number) {
    const { database, maxTrackedCallers, rememberRefusals } = shared
    this.maxTrackedCallers = maxTrackedCallers
    this.#shared = shared
    this.#name = name
    this.#window = window
    this.#decisions = new Decisions(database, name, window, maxTrackedCallers)
    this.#rejections = rememberRefusals ? new RememberedRejections(maxTrackedCallers) : undefined
  }

  acquire (callerKey: string, limit: number, cost = 1): Acquisition | Promise<Acquisition> {
    const time = this.#time()
    const askedAt = time ?? performance.now()
    return this.#rejections?.recall(callerKey, limit, askedAt) ?? this.#decide(callerKey, limit, cost, time, askedAt)
  }

  enter (callerKey: string, limit: number): Promise<Entry> {
    return this.#shared.places.enter(this.#name, callerKey, limit)
  }

  async peek (callerKey: string): Promise<QuotaCount | null> {
    const reply = await this.#shared.database.call('peek',
      this.#name, this.#window, this.maxTrackedCallers, this.#time(), callerKey)
    if (reply === '') return null
    const { count, windowRemaining, overflow } = readAcquisition(reply)
    return { count, windowRemaining, overflow }
  }

  // Removes the remembered rejection before and after the statement, because an answer that arrives in between may be older than it.
  async forget (callerKey: string): Promise<void> {
    this.#rejections?.forget(callerKey)
    try {
      await this.#shared.database.call('forget', this.#name, callerKey)
    } finally {
      this.#rejections?.forget(callerKey)
    }
  }

  async clearCounters (): Promise<void> {
    this.#rejections?.clear()
    try {
      await this.#shared.database.call('clear', this.#name)
    } finally {
      this.#rejections?.clear()
    }
  }

  async inspect (): Promise<QuotaStoreState> {
    const reply = await this.#shared.database.call('inspect', this.#name, this.#window)
    const [trackedCallers = 0, sweeps = 0] = reply.split(' ').map(Number)
    return { trackedCallers, sweeps }
  }

  /** Returns the time of the store's own clock; null for the server's. */
  #time (): number | null {
    return this.#shared.clock?.() ?? null
  }

  async #decide (callerKey: string, limit: number, cost: number, time: number | null, askedAt: number): Promise<Acquisition> {
    const era = this.#rejections?.era ?? 0
    const acquisition = await this.#decisions.acquire(callerKey, limit, cost, time)
    // A rejection by the overflow counter is not remembered, because the caller can get a counter of its own at any time.
    if (!acquisition.admitted && !acquisition.overflow) this.#rejections?.remember(callerKey, acquisition, askedAt, era)
    return acquisition
  }
}
