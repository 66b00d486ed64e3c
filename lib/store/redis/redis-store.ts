import { assertOptions, checkThat } from '../../option-checks.js'
import { sharedChecks, SharedStore, type SharedQuotaStoreOptions } from '../shared/shared-store.js'
import { adaptClient } from './adapt-client.js'
import type { SupportedRedisClient } from './clients.js'
import { Keys } from './keys.js'
import { RedisDriver } from './redis-driver.js'

// The keys of a store are in the hash slot of a part in braces.
const assertPrefix = checkThat(
  'must be a string that is not empty, without braces or with one part in braces, such as {a}',
  (value) => typeof value === 'string' && /^(?:[^{}]+|[^{}]*\{[^{}]+\}[^{}]*)$/.test(value)
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
   * prefix share their counters, so give each service its own prefix. In a cluster, all keys are in
   * the hash slot of the part in braces (`quota:{a}:`), or of the whole prefix.
   */
  readonly keyPrefix?: string
}

/**
 * Stores the quota counters on a Redis or Valkey server that several instances of a service share.
 * A decision takes one atomic script and one round trip. Decisions that arrive together share both.
 * All keys expire: those of counters within two minutes after the last window of their quota or, if
 * a function returns when windows begin, after twice its longest window.
 *
 * With `rememberRejections`, requests that are known to have no room are rejected from memory, for
 * up to a second and without asking the server.
 *
 * @throws {OptionError} If an option has an invalid value.
 */
export class RedisQuotaStore extends SharedStore {
  /** The prefix of all keys. */
  readonly keyPrefix: string

  constructor (options: RedisQuotaStoreOptions) {
    assertOptions<RedisQuotaStoreOptions>(options, {
      client: adaptClient,
      keyPrefix: assertPrefix,
      ...sharedChecks
    })
    const { keyPrefix = 'llm-quota:', maxTrackedCallers = Infinity } = options
    const client = adaptClient(options.client)
    super(options, new RedisDriver(client, new Keys(keyPrefix), maxTrackedCallers))
    this.keyPrefix = keyPrefix
  }
}
