import { OptionError, hasFunction, shown } from '../errors.js'

/**
 * What the store asks of an `ioredis` client; both `Redis` and `Cluster` have it.
 *
 * @example
 * ```ts
 * import { Redis } from 'ioredis'
 * import { RedisQuotaStore, type RedisClient } from 'fastify-llm-quota/redis'
 *
 * const client: RedisClient = new Redis({ lazyConnect: true, maxRetriesPerRequest: 0, commandTimeout: 300 })
 * console.log(new RedisQuotaStore({ client }) instanceof RedisQuotaStore) // true
 * ```
 */
export interface RedisClient {
  /** Runs a script that the server knows by its SHA-1 digest (`EVALSHA`). */
  evalsha (digest: string, numberOfKeys: number, ...keysAndParameters: (string | number | Buffer)[]): Promise<unknown>
  /** Runs a script, and lets the server know it (`EVAL`). */
  eval (script: string, numberOfKeys: number, ...keysAndParameters: (string | number | Buffer)[]): Promise<unknown>
  /** Removes keys (`UNLINK`). */
  unlink (...keys: string[]): Promise<unknown>
}

/** Throws, naming the option, unless it is such a client. */
export function assertClient (value: unknown): asserts value is RedisClient {
  if (!['evalsha', 'eval', 'unlink'].every((name) => hasFunction(value, name))) {
    throw new OptionError('client', 'must be a Redis or Cluster of ioredis', shown(value))
  }
}
