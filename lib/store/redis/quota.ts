import type { Acquisition, Entry, QuotaCount, QuotaStore, QuotaStoreState } from '../store.js'
import { RememberedRejections } from '../remembered-rejections.js'
import { Shard, type ShardSettings } from './shard.js'

/** Settings of a `RedisQuota`. */
export interface RedisQuotaSettings extends ShardSettings {
  readonly keyPrefix: string
  readonly maxTrackedCallers: number
  readonly shards: number
  readonly rememberRefusals: boolean
}

const endOfDigest = /[0-9a-f]{8}$/

/** The counters and places of one quota on a Redis or Valkey server, divided among its shards. */
export class RedisQuota implements QuotaStore {
  /** The prefix of all keys. */
  readonly keyPrefix: string
  /** The number of shards. */
  readonly shards: number
  /** The caller cap, across all shards. */
  readonly maxTrackedCallers: number
  readonly #settings: RedisQuotaSettings
  readonly #name: string
  readonly #shards: (Shard | undefined)[]
  readonly #rejections: RememberedRejections | undefined
  readonly #clock: () => number

  constructor (settings: RedisQuotaSettings, name: string) {
    const { keyPrefix, shards, rememberRefusals, maxTrackedCallers, clock = () => performance.now() } = settings
    this.keyPrefix = keyPrefix
    this.shards = shards
    this.maxTrackedCallers = maxTrackedCallers
    this.#settings = settings
    this.#name = name
    this.#shards = Array.from({ length: shards })
    this.#rejections = rememberRefusals ? new RememberedRejections(maxTrackedCallers) : undefined
    this.#clock = clock
  }

  acquire (callerKey: string, limit: number, cost = 1): Acquisition | Promise<Acquisition> {
    const shard = this.#shardAt(this.shardOf(callerKey))
    const ask = (): Promise<Acquisition> => shard.acquire(callerKey, limit, cost)
    return this.#rejections?.acquire(callerKey, limit, this.#clock(), ask) ?? ask()
  }

  enter (callerKey: string, limit: number): Promise<Entry> {
    return this.#shardAt(this.shardOf(callerKey)).enter(callerKey, limit)
  }

  peek (callerKey: string): Promise<QuotaCount | null> {
    return this.#shardAt(this.shardOf(callerKey)).peek(callerKey)
  }

  // Removes the remembered rejection before and after the command, because an answer that arrives in between may be older than it.
  async forget (callerKey: string): Promise<void> {
    this.#rejections?.forget(callerKey)
    try {
      await this.#shardAt(this.shardOf(callerKey)).forget(callerKey)
    } finally {
      this.#rejections?.forget(callerKey)
    }
  }

  async clearCounters (): Promise<void> {
    this.#rejections?.clear()
    try {
      await Promise.all(this.#allShards().map((shard) => shard.clear()))
    } finally {
      this.#rejections?.clear()
    }
  }

  /**
   * Returns the state of all shards, at the cost of a decision for each. A caller that a sweep removes can be included for some sweeps
   * longer if its shard has more than 1,000 callers.
   */
  async inspect (): Promise<QuotaStoreState> {
    const states = await Promise.all(this.#allShards().map((shard) => shard.inspect()))
    return states.reduce((sum, { trackedCallers, sweeps }) => ({
      trackedCallers: sum.trackedCallers + trackedCallers, sweeps: sum.sweeps + sweeps
    }))
  }

  /** Returns the number of the caller's shard, from 0. It is the same in every quota. */
  shardOf (callerKey: string): number {
    if (this.shards === 1) return 0
    // The last bytes of a digest are evenly distributed. Any other key uses the sum of its characters.
    const [end] = endOfDigest.exec(callerKey) ?? []
    if (end !== undefined) return Number.parseInt(end, 16) % this.shards
    let sum = 0
    for (let index = 0; index < callerKey.length; index++) sum += callerKey.charCodeAt(index)
    return sum % this.shards
  }

  #allShards (): Shard[] {
    return Array.from({ length: this.shards }, (_, index) => this.#shardAt(index))
  }

  #shardAt (index: number): Shard {
    let shard = this.#shards[index]
    if (shard === undefined) {
      const cap = Math.floor(this.maxTrackedCallers / this.shards) + (index < this.maxTrackedCallers % this.shards ? 1 : 0)
      // With the braces, the hash slot depends only on the shard's number.
      shard = new Shard(this.#settings, `${this.keyPrefix}{${index}}:${this.#name}`, cap)
      this.#shards[index] = shard
    }
    return shard
  }
}
