import { OptionError } from '../../errors.js'
import { ignoreRejection, isPromise } from '../../promises.js'
import { required } from '../../required.js'
import { assertCallerKey, assertDemand, assertDemands } from '../argument-checks.js'
import { acquireFrom } from '../result-checks.js'
import { acquireSideBySide } from '../side-by-side.js'
import { assertStore, hideMissingFunctions } from '../store-functions.js'
import type {
  Acquisitions,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState,
  Settled
} from '../store.js'
import { readReceipt, receiptOf } from './receipt.js'
import { shardOf } from './rendezvous.js'

/** A store of a `ShardedQuotaStore`. */
interface Shard {
  /** Its number, from 0. */
  readonly index: number
  readonly store: QuotaStore
}

/**
 * Divides the callers among several stores of the same kind, for what one server cannot hold: for
 * example slots of a Redis Cluster, several Redis servers, or several PostgreSQL servers.
 *
 * A caller's store is found from the caller key by rendezvous hashing. The order of the stores is
 * their identity, and must be the same in all processes. A store that is added at the end moves
 * only its share of the callers to it, who begin with a full budget; while processes with and
 * without it run, they count in two places.
 *
 * The demands of a request on one shard are decided in one step. Those on several are decided side
 * by side, and what one shard counted is given back if another rejects or fails. Nobody waits for
 * that: if it fails, it stays counted until its window, or its place, ends. The store has the
 * optional functions that all of its stores have.
 *
 * @throws {OptionError} If the stores are not a list of at least one store, each given once, or if
 *   one of several stores lacks `settle`.
 */
export class ShardedQuotaStore implements QuotaStore {
  /** The stores, in their order. */
  readonly stores: readonly QuotaStore[]
  readonly #shards: readonly Shard[]

  constructor (stores: readonly QuotaStore[]) {
    assertStores(stores)
    this.stores = [...stores]
    this.#shards = this.stores.map((store, index) => ({ index, store }))
    hideMissingFunctions(this, this.stores)
  }

  acquire (demands: readonly Demand[]): Acquisitions | Promise<Acquisitions> {
    assertDemands(demands)
    const shards = new Map(demands.map((demand) => [demand, this.#shardOf(demand.callerKey)]))
    return acquireSideBySide(shards, {
      acquire: acquireFromShard,
      settle: (_shard, receipt, less) => {
        ignoreRejection((async () => this.settle?.(receipt, less))())
      }
    })
  }

  /** Settles in the shard that made the acquisition. */
  async settle? (receipt: unknown, less: Settled, once?: string): Promise<void | boolean> {
    const { shard, receipt: own } = readReceipt(receipt)
    return this.#storeAt(shard, 'the receipt').settle?.(own, less, once)
  }

  async peek? (demand: Demand): Promise<QuotaCount | null> {
    assertDemand(demand)
    const { store } = this.#shardOf(demand.callerKey)
    assertStore(store, 'stores', 'peek')
    return store.peek(demand)
  }

  async forget? (counters: string, callerKey: string): Promise<void> {
    assertCallerKey(callerKey)
    await this.#shardOf(callerKey).store.forget?.(counters, callerKey)
  }

  /** Lists the callers of the first shard, then those of the next one, and so on. */
  async list? (counters: string, cursor = '0'): Promise<CallerPage> {
    const { shard, within } = readCursor(cursor)
    const store = this.#storeAt(shard, 'the cursor')
    assertStore(store, 'stores', 'list')
    const page = await store.list(counters, within)
    if (page.cursor !== null) return { ...page, cursor: `${shard}:${page.cursor}` }
    const isLast = shard === this.stores.length - 1
    return { ...page, cursor: isLast ? null : `${shard + 1}` }
  }

  /** Returns the callers of all shards. Each sweeps by itself, so their sweeps have no number. */
  async inspect? (counters: string): Promise<QuotaStoreState> {
    const inspecting = this.stores.map(async (store) => {
      assertStore(store, 'stores', 'inspect')
      return store.inspect(counters)
    })
    let trackedCallers = 0
    for (const state of await Promise.all(inspecting)) trackedCallers += state.trackedCallers
    return { trackedCallers }
  }

  async clearCounters? (): Promise<void> {
    await Promise.all(this.stores.map(async (store) => store.clearCounters?.()))
  }

  #shardOf (callerKey: string): Shard {
    const index = shardOf(callerKey, this.#shards.length)
    return required(this.#shards[index], 'the shard of a caller')
  }

  #storeAt (index: number, what: string): QuotaStore {
    const store = this.stores[index]
    if (store === undefined) {
      throw new TypeError(`${what} is of shard ${index}; there are ${this.stores.length} shards`)
    }
    return store
  }
}

/** Returns the stores of a sharded store; of another store, the store itself. */
export function shardsOf (store: QuotaStore): readonly QuotaStore[] {
  return store instanceof ShardedQuotaStore ? store.stores : [store]
}

function assertStores (value: unknown): asserts value is readonly QuotaStore[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw new OptionError('stores', 'must be an array of at least one store', value)
  }
  const stores: readonly unknown[] = value
  for (const [index, store] of stores.entries()) {
    assertStore(store, `stores[${index}]`)
    // What one of them counted is given back if another one rejects.
    if (stores.length > 1) assertStore(store, `stores[${index}]`, 'settle')
    if (stores.indexOf(store) !== index) {
      throw new OptionError(`stores[${index}]`, 'must be given once', store)
    }
  }
}

function acquireFromShard (
  shard: Shard,
  demands: readonly Demand[]
): Acquisitions | Promise<Acquisitions> {
  const acquiring = acquireFrom(shard.store, demands)
  return isPromise(acquiring)
    ? acquiring.then((acquisitions) => withReceipts(shard, acquisitions))
    : withReceipts(shard, acquiring)
}

function withReceipts ({ index }: Shard, acquisitions: Acquisitions): Acquisitions {
  return acquisitions.map((acquisition) => {
    if (acquisition?.receipt === undefined) return acquisition
    return { ...acquisition, receipt: receiptOf(index, acquisition.receipt) }
  })
}

/** Reads a cursor: `<shard>`, or `<shard>:<cursor>` with that of the shard's own page. */
function readCursor (cursor: string): { shard: number, within: string | undefined } {
  const [, shard, within] = /^(\d{1,5})(?::(.*))?$/s.exec(cursor) ?? []
  if (shard === undefined) throw new TypeError('list takes a cursor that it has returned')
  return { shard: Number(shard), within }
}
