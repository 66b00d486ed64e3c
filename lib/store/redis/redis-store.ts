import { OptionError, shown } from '../errors.js'
import { assertMaxTrackedCallers, defaultMaxTrackedCallers } from '../overflow.js'
import type { Acquisition, QuotaStore, QuotaStoreState } from '../store.js'
import { acquireScript, inspectScript } from './acquire-script.js'
import { assertClient, type RedisClient } from './client.js'
import { RememberedRefusals } from './remembered-refusals.js'
import { readAcquisition, readState } from './replies.js'
import { Script } from './script.js'
import { packCaller, Shards } from './shards.js'

/**
 * What a `RedisQuotaStore` can be told.
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
  /** The host's own `ioredis` `Redis` or `Cluster`, for Redis 6.2 or later, or Valkey. The store never closes it. */
  readonly client: RedisClient
  /** What the names of all keys begin with. Default `llm-quota:`. */
  readonly keyPrefix?: string
  /** How many callers have a counter of their own, over all shards. Default 10,000 (specification, section 8). */
  readonly maxTrackedCallers?: number
  /** Over how many hash slots of a cluster the callers are spread, each with its share of the cap. Default 1. */
  readonly shards?: number
  /** Whether a caller known to be at its limit is refused without asking the server. Default true. */
  readonly rememberRefusals?: boolean
  /** Gives monotonic milliseconds in place of the server's clock; for tests. */
  readonly clock?: () => number
}

const acquire = new Script(acquireScript)
const inspect = new Script(inspectScript)

/**
 * Keeps the quota counters on a server that several instances of a service share (specification, sections 3 and 8):
 * one atomic script, one round trip a decision. The keys expire by themselves, within 180 seconds of the last request.
 *
 * @throws {OptionError} When an option cannot be used.
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
  readonly #client: RedisClient
  readonly #shards: Shards
  readonly #refusals: RememberedRefusals | undefined
  readonly #clock: (() => number) | undefined

  constructor ({ client, keyPrefix = 'llm-quota:', maxTrackedCallers = defaultMaxTrackedCallers, shards = 1, rememberRefusals = true, clock }: RedisQuotaStoreOptions) {
    assertClient(client)
    if (typeof keyPrefix !== 'string' || /[{}]/.test(keyPrefix)) throw new OptionError('keyPrefix', 'must be a string without braces', shown(keyPrefix))
    assertMaxTrackedCallers(maxTrackedCallers)
    if (!Number.isInteger(shards) || shards < 1 || shards > maxTrackedCallers) {
      throw new OptionError('shards', 'must be an integer from 1 to maxTrackedCallers', shown(shards))
    }
    if (typeof rememberRefusals !== 'boolean') throw new OptionError('rememberRefusals', 'must be true or false', shown(rememberRefusals))
    if (clock !== undefined && typeof clock !== 'function') throw new OptionError('clock', 'must be a function', shown(clock))
    this.#client = client
    this.#shards = new Shards(keyPrefix, shards, maxTrackedCallers)
    this.#refusals = rememberRefusals ? new RememberedRefusals(maxTrackedCallers) : undefined
    this.#clock = clock
  }

  acquire (callerKey: string, limit: number): Acquisition | Promise<Acquisition> {
    const now = this.#now()
    return this.#refusals?.recall(callerKey, limit, now) ?? this.#ask(callerKey, limit, now)
  }

  async clearCounters (): Promise<void> {
    this.#refusals?.clear()
    await Promise.all(this.#shards.all().map(({ keys }) => this.#client.unlink(...keys)))
  }

  async inspect (): Promise<QuotaStoreState> {
    const states = await Promise.all(this.#shards.all().map(async ({ keys }) => readState(await inspect.run(this.#client, keys, []))))
    return states.reduce((sum, { trackedCallers, sweeps }) => ({
      trackedCallers: sum.trackedCallers + trackedCallers, sweeps: sum.sweeps + sweeps
    }))
  }

  async #ask (callerKey: string, limit: number, askedAt: number): Promise<Acquisition> {
    const caller = packCaller(callerKey)
    const { keys, maxTrackedCallers } = this.#shards.of(caller)
    const parameters = [caller, limit, maxTrackedCallers, ...(this.#clock === undefined ? [] : [askedAt * 1000])]
    const acquisition = readAcquisition(await acquire.run(this.#client, keys, parameters))
    // The overflow counter's refusals are not the caller's own: it may get a counter of its own at any time.
    if (!acquisition.admitted && !acquisition.overflow) this.#refusals?.remember(callerKey, acquisition, askedAt)
    return acquisition
  }

  #now (): number {
    return this.#clock === undefined ? performance.now() : this.#clock()
  }
}
