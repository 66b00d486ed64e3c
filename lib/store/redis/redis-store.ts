import { assertOptions, checkThat } from '../../option-checks.js'
import { sharedChecks, SharedStore, type SharedQuotaStoreOptions } from '../shared/shared-store.js'
import { defaultMaxTrackedCallers } from '../store.js'
import { adaptClient, type SupportedRedisClient } from './clients.js'
import { RedisDriver } from './redis-driver.js'

// Braces would change the hash slot of the keys.
const assertPrefix = checkThat(
  'must be a string without braces',
  (value) => typeof value === 'string' && !/[{}]/.test(value)
)
const assertShards = checkThat(
  'must be an integer of at least 1',
  (value) => Number.isInteger(value) && Number(value) >= 1
)

/** Options of `RedisQuotaStore`. */
export interface RedisQuotaStoreOptions extends SharedQuotaStoreOptions {
  /**
   * The host's client for Redis 6.2 or later, or Valkey: a client of `ioredis`, `iovalkey`, `redis`
   * or `@valkey/valkey-glide`, or another implementation of `QuotaRedisClient`. The store never
   * closes it.
   */
  readonly client: SupportedRedisClient
  /**
   * The prefix of all keys. Default `llm-quota:`. Services that use the same server with the same
   * prefix share their counters, so give each service its own prefix.
   */
  readonly keyPrefix?: string
  /**
   * The number of shards. Each has a hash slot of its own in a cluster and an equal share of the
   * caller cap. Default 1. At most 16, or one for each 100 callers of the cap, because callers are
   * not spread evenly over shards.
   */
  readonly shards?: number
}

/**
 * Stores the quota counters on a Redis or Valkey server that several instances of a service share.
 * A decision takes one atomic script and one round trip. Decisions that arrive together share both.
 * All keys expire, within 180 seconds of the last request if windows last a minute.
 *
 * With `rememberRejections`, requests that are known to have no room are rejected from memory, for
 * up to a second and without asking the server.
 *
 * @throws {OptionError} If an option has an invalid value.
 */
export class RedisQuotaStore extends SharedStore {
  /** The prefix of all keys. */
  readonly keyPrefix: string
  /** The number of shards. */
  readonly shards: number

  constructor (options: RedisQuotaStoreOptions) {
    assertOptions<RedisQuotaStoreOptions>(options, {
      client: adaptClient,
      keyPrefix: assertPrefix,
      shards: assertShards,
      ...sharedChecks
    })
    const {
      keyPrefix = 'llm-quota:',
      maxTrackedCallers = defaultMaxTrackedCallers,
      shards = 1
    } = options
    // Callers are not divided evenly. With 100 callers in each of 100 shards, the first one
    // overflows at about three quarters of the cap.
    const most = Math.min(maxTrackedCallers, Math.max(16, maxTrackedCallers / 100))
    checkThat(
      'must be at most 16, or maxTrackedCallers / 100, and at most maxTrackedCallers',
      () => shards <= most
    )(shards, 'shards')
    const client = adaptClient(options.client)
    // With the braces, the hash slot depends only on the shard's number.
    super(options, shards, (cap, shard) => new RedisDriver(client, `${keyPrefix}{${shard}}`, cap))
    this.keyPrefix = keyPrefix
    this.shards = shards
  }
}
