import { assertBoolean, assertFunction } from '../../option-checks.js'
import { proceed } from '../../promises.js'
import { hasRoom } from '../counter.js'
import { acquireSideBySide } from '../side-by-side.js'
import { assertMaxTrackedCallers, defaultMaxTrackedCallers } from '../store.js'
import type {
  Acquisition,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState
} from '../store.js'
import type { Driver } from './driver.js'
import { RememberedRejections } from './remembered-rejections.js'
import { counted, Shard } from './shard.js'

/** Options of a store on a server. */
export interface SharedQuotaStoreOptions {
  /**
   * The caller cap: how many callers can have a counter of their own in each quota. Default 10,000.
   */
  readonly maxTrackedCallers?: number
  /**
   * Whether to reject, for up to a second and without asking the server, requests that are known to
   * have no room. Default true.
   */
  readonly rememberRejections?: boolean
  /** Returns monotonic milliseconds. Default: the server's clock. Replace it in tests. */
  readonly clock?: () => number
}

export const sharedChecks = {
  maxTrackedCallers: assertMaxTrackedCallers,
  rememberRejections: assertBoolean,
  clock: assertFunction
}

/**
 * Keeps the counters of quotas on a server that several processes share, through a driver for that
 * server.
 */
export class SharedStore implements QuotaStore {
  /** The caller cap: how many callers can have a counter of their own in each quota. */
  readonly maxTrackedCallers: number
  readonly #shards: readonly Shard[]
  readonly #clock: () => number
  #rejections: RememberedRejections | undefined

  /** @param driverOf Returns the driver of a shard, from 0, which has a share of the caller cap. */
  constructor (
    options: SharedQuotaStoreOptions,
    shards: number,
    driverOf: (cap: number, shard: number) => Driver
  ) {
    const {
      maxTrackedCallers = defaultMaxTrackedCallers,
      rememberRejections = true,
      clock
    } = options
    this.maxTrackedCallers = maxTrackedCallers
    const time = (): number | null => (clock === undefined ? null : Math.floor(clock()))
    const shareOf = (shard: number): number => Math.ceil((maxTrackedCallers - shard) / shards)
    this.#shards = Array.from(
      { length: shards },
      (_, shard) => new Shard(driverOf(shareOf(shard), shard), time)
    )
    this.#clock = clock ?? (() => performance.now())
    this.#rejections = rememberRejections ? new RememberedRejections(maxTrackedCallers) : undefined
  }

  /** Returns the number of the caller's shard, from 0. It is the same in every quota. */
  shardOf (callerKey: string): number {
    if (this.#shards.length === 1) return 0
    let sum = 0
    for (let index = 0; index < callerKey.length; index++) sum += callerKey.charCodeAt(index)
    return sum % this.#shards.length
  }

  acquire (
    demands: readonly Demand[]
  ): readonly (Acquisition | null)[] | Promise<readonly (Acquisition | null)[]> {
    const rejections = this.#rejections
    if (rejections === undefined) return this.#ask(demands)
    const now = this.#clock()
    const known = demands.map((demand) =>
      demand.window === null ? this.#withoutPlace(demand) : rejections.recall(demand, now)
    )
    if (known.some((rejection) => rejection !== null)) return known
    return proceed(this.#ask(demands), (acquisitions) => {
      demands.forEach((demand, index) => {
        rejections.remember(demand, acquisitions[index], now)
      })
      return acquisitions
    })
  }

  async release (acquisition: Acquisition, amount: number): Promise<void> {
    const known = counted.get(acquisition)
    const given = Math.min(amount, known?.left ?? 0)
    if (known === undefined || given <= 0) return
    known.left -= given
    await known.giveBack(given)
    this.#rejections?.drop(known.demand)
  }

  peek (demand: Demand): Promise<QuotaCount | null> {
    return this.#shardFor(demand).ask((driver, time) => driver.peek(demand, time))
  }

  forget (callerKey: string, counters: string): Promise<void> {
    return this.#relieve(
      this.#shardFor({ callerKey }).ask((driver) => driver.forget(callerKey, counters))
    )
  }

  /**
   * Returns about a hundred callers of one shard, or none on a page that has none with an open
   * window.
   */
  async list (counters: string, cursor = '0'): Promise<CallerPage> {
    const [number = '', own = null] = cursor.split(':')
    const index = Number(number)
    const { callers, cursor: next } = await this.#shardAt(index).ask((driver, time) =>
      driver.list(counters, own, time, Date.now())
    )
    const following = index + 1 < this.#shards.length ? String(index + 1) : null
    return { callers, cursor: next === null ? following : `${index}:${next}` }
  }

  async inspect (counters: string): Promise<QuotaStoreState> {
    const states = await Promise.all(
      this.#shards.map((shard) => shard.ask((driver) => driver.inspect(counters)))
    )
    const sumOf = (name: keyof QuotaStoreState): number =>
      states.reduce((sum, state) => sum + state[name], 0)
    return { trackedCallers: sumOf('trackedCallers'), sweeps: sumOf('sweeps') }
  }

  clearCounters (): Promise<void> {
    for (const shard of this.#shards) shard.dropPlaces()
    return this.#relieve(
      Promise.all(this.#shards.map((shard) => shard.ask((driver) => driver.clear())))
    )
  }

  #ask (demands: readonly Demand[]): ReturnType<QuotaStore['acquire']> {
    const release = (_shard: Shard, acquisition: Acquisition, amount: number): void => {
      this.release(acquisition, amount).catch(() => {})
    }
    return acquireSideBySide(
      demands,
      demands.map((demand) => this.#shardFor(demand)),
      (shard, part) => shard.acquire(part),
      release
    )
  }

  /** Returns a rejection if this process itself holds the caller's places up to the limit. */
  #withoutPlace (demand: Demand): Acquisition | null {
    const count = this.#shardFor(demand).held(demand)
    return hasRoom(count, demand.limit, demand.cost)
      ? null
      : { admitted: false, count, windowRemaining: null, overflow: false }
  }

  /**
   * Awaits a call that removes counters. Replaces what is remembered, before and after, since a
   * late reply can be older than the call.
   */
  async #relieve (call: Promise<unknown>): Promise<void> {
    const startAnew = (): void => {
      this.#rejections &&= new RememberedRejections(this.maxTrackedCallers)
    }
    startAnew()
    await call.finally(startAnew)
  }

  #shardFor ({ callerKey }: Pick<Demand, 'callerKey'>): Shard {
    return this.#shardAt(this.shardOf(callerKey))
  }

  /** Throws a `TypeError` for a number that comes from the cursor of another store. */
  #shardAt (index: number): Shard {
    const shard = this.#shards[index]
    if (shard === undefined) throw new TypeError(`there is no shard ${index}`)
    return shard
  }
}
