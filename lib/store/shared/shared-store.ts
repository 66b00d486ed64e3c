import { assertBoolean, assertFunction } from '../../option-checks.js'
import { wallClock } from '../../wall-clock.js'
import { required } from '../../required.js'
import { hasRoom } from '../counter.js'
import { acquireSideBySide, haveRoom } from '../side-by-side.js'
import {
  assertDemand,
  assertDemands,
  assertMaxTrackedCallers,
  assertUsed,
  rejectForeignAcquisition
} from '../checks.js'
import { defaultMaxTrackedCallers } from '../store.js'
import type {
  Acquisition,
  Acquisitions,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState
} from '../store.js'
import type { Driver } from './driver.js'
import { rejectionOf, RememberedRejections } from './remembered-rejections.js'
import { Shard } from './shard.js'
import { SharedAcquisition } from './shared-acquisition.js'

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
    this.#clock = clock ?? (() => performance.now())
    const time = (): number | null => (clock === undefined ? null : Math.floor(clock()))
    const shareOf = (shard: number): number => Math.ceil((maxTrackedCallers - shard) / shards)
    this.#shards = Array.from(
      { length: shards },
      (_, shard) => new Shard(driverOf(shareOf(shard), shard), this.#clock, time)
    )
    this.#rejections = rememberRejections ? new RememberedRejections(maxTrackedCallers) : undefined
  }

  /** Returns the number of the caller's shard, from 0. It is the same in every quota. */
  shardOf (callerKey: string): number {
    if (this.#shards.length === 1) return 0
    // FNV-1a, so that each shard has about as many callers.
    let hash = 2_166_136_261
    for (let index = 0; index < callerKey.length; index++) {
      hash = Math.imul(hash ^ callerKey.charCodeAt(index), 16_777_619)
    }
    return (hash >>> 0) % this.#shards.length
  }

  /**
   * Returns a value if the request is rejected from memory, so that a flood takes no turns of the
   * event loop, and otherwise a promise.
   */
  acquire (demands: readonly Demand[]): Acquisitions | Promise<Acquisitions> {
    assertDemands(demands)
    const now = this.#clock()
    const rejections = this.#rejections
    if (rejections !== undefined) {
      const known = demands.map((demand) => this.#knownRejection(demand, rejections, now))
      if (known.some((rejection) => rejection !== null)) return known
    }
    return this.#ask(demands, now, rejections)
  }

  async settle (acquisition: Acquisition, used: number): Promise<void> {
    assertUsed(used)
    const isOwn = acquisition instanceof SharedAcquisition && this.#hasDecidedOn(acquisition)
    if (!isOwn) rejectForeignAcquisition()
    try {
      await acquisition.settle(used)
    } finally {
      this.#rejections?.drop(acquisition.demand)
    }
  }

  async peek (demand: Demand): Promise<QuotaCount | null> {
    assertDemand(demand)
    return await this.#shardFor(demand).ask((driver, time) => driver.peek(demand, time))
  }

  forget (callerKey: string, counters: string): Promise<void> {
    return this.#removeCounters(
      this.#shardFor({ callerKey }).ask((driver) => driver.forget(callerKey, counters))
    )
  }

  /** Returns callers of one shard, or none on a page that has none with an open window. */
  async list (counters: string, cursor = '0'): Promise<CallerPage> {
    // The shard and, within a shard, a colon and the driver's cursor, which can contain colons.
    const colon = cursor.indexOf(':')
    const index = Number(colon === -1 ? cursor : cursor.slice(0, colon))
    const driverCursor = colon === -1 ? null : cursor.slice(colon + 1)
    const { callers, cursor: next } = await this.#shardAt(index).ask((driver, time) =>
      driver.list(counters, driverCursor, time, wallClock())
    )
    const following = index + 1 < this.#shards.length ? String(index + 1) : null
    return { callers, cursor: next === null ? following : `${index}:${next}` }
  }

  async inspect (counters: string): Promise<QuotaStoreState> {
    const states = await Promise.all(
      this.#shards.map((shard) => shard.ask((driver, time) => driver.inspect(counters, time)))
    )
    const sumOf = (name: keyof QuotaStoreState): number =>
      states.reduce((sum, state) => sum + state[name], 0)
    return { trackedCallers: sumOf('trackedCallers'), sweeps: sumOf('sweeps') }
  }

  /**
   * As `QuotaStore.clearCounters`. Other processes that hold places take them again with their next
   * renewal, within 11 s, and a call that is under way can still count.
   */
  clearCounters (): Promise<void> {
    for (const shard of this.#shards) shard.dropPlaces()
    return this.#removeCounters(
      Promise.all(this.#shards.map((shard) => shard.ask((driver) => driver.clear())))
    )
  }

  /**
   * @param rejections Those from before the server was asked. `forget` and `clearCounters` replace
   *   them, so a reply that is older than such a call is not remembered.
   */
  async #ask (
    demands: readonly Demand[],
    now: number,
    rejections: RememberedRejections | undefined
  ): Promise<Acquisitions> {
    const acquisitions = await this.#askShards(demands)
    if (haveRoom(acquisitions)) return acquisitions
    return acquisitions.map((acquisition, index) => {
      const demand = required(demands[index], 'the demand of an acquisition')
      rejections?.remember(demand, acquisition, now)
      if (acquisition === null || acquisition instanceof SharedAcquisition) return acquisition
      // Another shard has rejected the request.
      return this.#rejected(demand, acquisition)
    })
  }

  /** With one shard, nothing is distributed, which would cost as much as everything else here. */
  #askShards (demands: readonly Demand[]): Acquisitions | Promise<Acquisitions> {
    const [first] = this.#shards
    if (first !== undefined && this.#shards.length === 1) return first.acquire(demands)
    return acquireSideBySide(
      new Map(demands.map((demand) => [demand, this.#shardFor(demand)])),
      (shard, part) => shard.acquire(part),
      (_shard, acquisition) => {
        this.settle(acquisition, 0).catch(() => {})
      }
    )
  }

  /** Returns a rejection if the demand is known to have no room; null if it must be asked. */
  #knownRejection (
    demand: Demand,
    rejections: RememberedRejections,
    now: number
  ): Acquisition | null {
    const rejection =
      demand.window === null ? this.#placeRejection(demand) : rejections.recall(demand, now)
    return rejection === null ? null : this.#rejected(demand, rejection)
  }

  /** Returns a rejection if this process itself holds the caller's places up to the limit. */
  #placeRejection (demand: Demand): Acquisition | null {
    const count = this.#shardFor(demand).held(demand)
    return hasRoom(count, demand) ? null : rejectionOf(count, count)
  }

  #rejected (demand: Demand, rejection: Acquisition): SharedAcquisition {
    return new SharedAcquisition(this.#shardFor(demand), demand, rejection)
  }

  #hasDecidedOn ({ settler }: SharedAcquisition): boolean {
    return this.#shards.some((shard) => shard === settler)
  }

  /**
   * Awaits a call that removes counters. Replaces what is remembered before and after it, because
   * replies that arrive in the meantime can be older than the call.
   */
  async #removeCounters (call: Promise<unknown>): Promise<void> {
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
