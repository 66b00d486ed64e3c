import { OptionError } from '../../errors.js'
import { acceptAny, assertOptions } from '../../option-checks.js'
import { assertMaxTrackedCallers, defaultMaxTrackedCallers, type Acquisition, type QuotaCount, type QuotaStore, type QuotaStoreState } from '../store.js'
import { adaptClient, type SupportedRedisClient } from './clients/adapt.js'
import { RememberedRejections } from './remembered-rejections.js'
import { Shards } from './shards.js'

/**
 * Options of `RedisQuotaStore`.
 *
 * @example
 * ```ts
 * import { Cluster } from 'ioredis'
 * import { RedisQuotaStore, type RedisQuotaStoreOptions } from 'fastify-llm-quota/redis'
 *
 * const options: RedisQuotaStoreOptions = {
 *   client: new Cluster([{ host: 'redis.example', port: 6379 }], { lazyConnect: true }),
 *   keyPrefix: 'my-service:quota:',
 *   maxTrackedCallers: 100_000,
 *   shards: 16
 * }
 * console.log(new RedisQuotaStore(options) instanceof RedisQuotaStore) // true
 * ```
 */
export interface RedisQuotaStoreOptions {
  /**
   * The host's client for Redis 6.2 or later, or Valkey: a client of `ioredis`, `iovalkey`, `redis` or `@valkey/valkey-glide`, or
   * another implementation of `QuotaRedisClient`. The store never closes it.
   */
  readonly client: SupportedRedisClient
  /** The prefix of all keys. Default `llm-quota:`. */
  readonly keyPrefix?: string
  /** The caller cap: how many callers can have a counter of their own, across all shards. Default 10,000. */
  readonly maxTrackedCallers?: number
  /** The number of shards. Each has a hash slot of its own in a cluster and an equal share of the caller cap. Default 1. */
  readonly shards?: number
  /** Whether to reject a caller that is known to be at its limit without sending a command to the server. Default true. */
  readonly rememberRefusals?: boolean
  /** Returns monotonic milliseconds. Default: the server's clock. Replace it in tests. */
  readonly clock?: () => number
}

/**
 * Keeps the quota counters on a Redis or Valkey server that several instances of a service share. A decision takes one atomic
 * script and one round trip. Decisions that arrive together share both. All keys expire within 180 seconds of the last request.
 *
 * With `rememberRefusals`, a rejection from memory is returned synchronously. An answer from the server is returned as a promise.
 *
 * @throws {OptionError} If an option has an invalid value.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import { Redis } from 'ioredis'
 * import quotaPlugin from 'fastify-llm-quota'
 * import { RedisQuotaStore } from 'fastify-llm-quota/redis'
 *
 * const client = new Redis({ lazyConnect: true })
 * await Fastify().register(quotaPlugin, { store: new RedisQuotaStore({ client, keyPrefix: 'my-service:quota:' }) })
 * ```
 */
export class RedisQuotaStore implements QuotaStore {
  readonly #shards: Shards
  readonly #rejections: RememberedRejections | undefined
  readonly #clock: () => number

  constructor (options: RedisQuotaStoreOptions) {
    assertOptions<RedisQuotaStoreOptions>(options, { client: acceptAny, keyPrefix: acceptAny, maxTrackedCallers: assertMaxTrackedCallers, shards: acceptAny, rememberRefusals: acceptAny, clock: acceptAny })
    const { client, keyPrefix = 'llm-quota:', maxTrackedCallers = defaultMaxTrackedCallers, shards = 1, rememberRefusals = true, clock } = options
    const adapted = adaptClient(client)
    if (typeof keyPrefix !== 'string' || /[{}]/.test(keyPrefix)) throw new OptionError('keyPrefix', 'must be a string without braces', keyPrefix)
    if (!Number.isInteger(shards) || shards < 1 || shards > maxTrackedCallers) {
      throw new OptionError('shards', 'must be an integer from 1 to maxTrackedCallers', shards)
    }
    if (typeof rememberRefusals !== 'boolean') throw new OptionError('rememberRefusals', 'must be true or false', rememberRefusals)
    if (clock !== undefined && typeof clock !== 'function') throw new OptionError('clock', 'must be a function', clock)
    this.#shards = new Shards(adapted, keyPrefix, shards, maxTrackedCallers, clock)
    this.#rejections = rememberRefusals ? new RememberedRejections(maxTrackedCallers) : undefined
    this.#clock = clock ?? (() => performance.now())
  }

  acquire (callerKey: string, limit: number): Acquisition | Promise<Acquisition> {
    const { decisions } = this.#shards.of(callerKey)
    const rejections = this.#rejections
    if (rejections === undefined) return decisions.acquire(callerKey, limit)
    const askedAt = this.#clock()
    const { era } = rejections
    return rejections.recall(callerKey, limit, askedAt) ?? decisions.acquire(callerKey, limit, (acquisition) => {
      // A rejection by the overflow counter is not remembered, because the caller can get a counter of its own at any time.
      if (!acquisition.admitted && !acquisition.overflow) rejections.remember(callerKey, acquisition, askedAt, era)
    })
  }

  peek (callerKey: string): Promise<QuotaCount | null> {
    return this.#shards.of(callerKey).peek(callerKey)
  }

  // Removes the remembered rejection before and after the command, because an answer that arrives in between may be older than it.
  async forget (callerKey: string): Promise<void> {
    this.#rejections?.forget(callerKey)
    try {
      await this.#shards.of(callerKey).forget(callerKey)
    } finally {
      this.#rejections?.forget(callerKey)
    }
  }

  async clearCounters (): Promise<void> {
    this.#rejections?.clear()
    try {
      await Promise.all(this.#shards.all().map((shard) => shard.clear()))
    } finally {
      this.#rejections?.clear()
    }
  }

  async inspect (): Promise<QuotaStoreState> {
    const states = await Promise.all(this.#shards.all().map((shard) => shard.inspect()))
    return states.reduce((sum, { trackedCallers, sweeps }) => ({
      trackedCallers: sum.trackedCallers + trackedCallers, sweeps: sum.sweeps + sweeps
    }))
  }
}
