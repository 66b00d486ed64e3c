import { hasRoom } from '../counter.js'
import { proceed } from '../../promises.js'
import { acquireSideBySide, type Sides } from '../side-by-side.js'
import type { Acquisition, CallerPage, Demand, QuotaCount, QuotaStore, QuotaStoreState } from '../store.js'
import { TimeLimit } from '../../time-limit.js'
import type { Driver } from './driver.js'
import { RememberedRejections } from './remembered-rejections.js'
import { release, Shard } from './shard.js'

// How long a question may take, in milliseconds.
const timeLimit = new TimeLimit(5_000)

/** Settings of a `SharedStore`, with a driver for each shard. Without a clock, it uses the server's. */
export interface SharedStoreSettings {
  readonly drivers: readonly Driver[]
  readonly maxTrackedCallers: number
  readonly rememberRejections: boolean
  readonly clock: (() => number) | undefined
}

/** Keeps the counters of quotas on a server that several processes share, through a driver for that server. */
export abstract class SharedStore implements QuotaStore {
  /** The caller cap: how many callers can have a counter of their own in each quota. */
  readonly maxTrackedCallers: number
  readonly #shards: readonly Shard[]
  readonly #clock: () => number
  readonly #rejections: RememberedRejections | undefined
  readonly #sides: Sides<Shard> = {
    acquire: (shard, demands) => shard.acquire(demands),
    release: (_shard, acquisition, amount) => { this.release(acquisition, amount).catch(() => {}) }
  }

  constructor ({ drivers, maxTrackedCallers, rememberRejections, clock }: SharedStoreSettings) {
    this.maxTrackedCallers = maxTrackedCallers
    this.#shards = drivers.map((driver) => new Shard(driver, clock))
    this.#clock = clock ?? (() => performance.now())
    this.#rejections = rememberRejections ? new RememberedRejections(maxTrackedCallers) : undefined
  }

  /** Returns the number of the caller's shard, from 0. It is the same in every quota. */
  abstract shardOf (callerKey: string): number

  acquire (demands: readonly Demand[]): readonly (Acquisition | null)[] | Promise<readonly (Acquisition | null)[]> {
    const rejections = this.#rejections
    if (rejections === undefined) return this.#ask(demands)
    const now = this.#clock()
    const known = demands.map((demand) => demand.window === null ? this.#withoutPlace(demand) : rejections.recall(demand, now))
    if (known.some((rejection) => rejection !== undefined)) return known.map((rejection) => rejection ?? null)
    const { era } = rejections
    return proceed(this.#ask(demands), (acquisitions) => {
      if (era === rejections.era) demands.forEach((demand, index) => { rejections.remember(demand, acquisitions[index], now) })
      return acquisitions
    })
  }

  async release (acquisition: Acquisition, amount: number): Promise<void> {
    const demand = await release(acquisition, amount)
    if (demand !== undefined) this.#rejections?.drop(demand)
  }

  peek (demand: Demand): Promise<QuotaCount | null> {
    const { driver, time } = this.#shardAt(this.shardOf(demand.callerKey))
    return timeLimit.within(driver.peek(demand, time))
  }

  // What is remembered is removed before and after the call, because a reply that arrives in between can be older than it.
  async forget (callerKey: string, counters: string): Promise<void> {
    this.#rejections?.forget(callerKey, counters)
    try {
      await timeLimit.within(this.#shardAt(this.shardOf(callerKey)).driver.forget(callerKey, counters))
    } finally {
      this.#rejections?.forget(callerKey, counters)
    }
  }

  /** Returns about a hundred callers of one shard, or none on a page that has none with an open window. */
  async list (counters: string, cursor = '0'): Promise<CallerPage> {
    const [number = '', own = null] = cursor.split(':')
    const index = Number(number)
    const shard = this.#shardAt(index)
    const { callers, cursor: next } = await timeLimit.within(shard.driver.list(counters, own, shard.time, Date.now()))
    const following = index + 1 < this.#shards.length ? String(index + 1) : null
    return { callers, cursor: next === null ? following : `${index}:${next}` }
  }

  async inspect (counters: string): Promise<QuotaStoreState> {
    const states = await Promise.all(this.#shards.map(({ driver }) => timeLimit.within(driver.inspect(counters))))
    return states.reduce((sum, { trackedCallers, sweeps }) => {
      return { trackedCallers: sum.trackedCallers + trackedCallers, sweeps: sum.sweeps + sweeps }
    })
  }

  async clearCounters (): Promise<void> {
    this.#rejections?.clear()
    for (const { holdings } of this.#shards) holdings.clear()
    try {
      await Promise.all(this.#shards.map(({ driver }) => timeLimit.within(driver.clear())))
    } finally {
      this.#rejections?.clear()
    }
  }

  #ask (demands: readonly Demand[]): ReturnType<QuotaStore['acquire']> {
    return acquireSideBySide(demands, demands.map(({ callerKey }) => this.#shardAt(this.shardOf(callerKey))), this.#sides)
  }

  /** Returns a rejection if this process itself holds the caller's places up to the limit. */
  #withoutPlace (demand: Demand): Acquisition | undefined {
    const count = this.#shardAt(this.shardOf(demand.callerKey)).holdings.count(demand)
    return hasRoom(count, demand.limit, demand.cost) ? undefined : { admitted: false, count, windowRemaining: null, overflow: false }
  }

  /** Throws a `TypeError` for a number that comes from the cursor of another store. */
  #shardAt (index: number): Shard {
    const shard = this.#shards[index]
    if (shard === undefined) throw new TypeError(`there is no shard ${index}`)
    return shard
  }
}
