import { OptionError } from '../../errors.js'
import { assertBoolean, assertFunction, assertOptions, withFunctions } from '../../option-checks.js'
import { windowLength } from '../counter.js'
import { assertMaxTrackedCallers, defaultMaxTrackedCallers } from '../store.js'
import { Database, type PostgresPool } from './database.js'
import { Places } from './places.js'
import { PostgresQuota, type Shared } from './quota.js'
import { assertTable, defaultTable } from './schema.js'

/** Options of `PostgresQuotaStore`. */
export interface PostgresQuotaStoreOptions {
  /** The host's connection pool for PostgreSQL 14 or later: a `Pool` of `pg`, or a `PostgresPool`. The store never closes it. */
  readonly pool: PostgresPool
  /** The table for the counters that `postgresSchema` has created, with or without its schema. Default `llm_quota`. */
  readonly table?: string
  /** The caller cap: how many callers can have a counter of their own, in each quota. Default 10,000. */
  readonly maxTrackedCallers?: number
  /** Whether to reject a caller that is known to be at its limit without a statement. Default true. */
  readonly rememberRefusals?: boolean
  /** Returns monotonic milliseconds. Default: the server's clock. Replace it in tests. */
  readonly clock?: () => number
}

/**
 * Keeps the quota counters in tables of a PostgreSQL server that several instances of a service share. A decision takes one statement, and
 * decisions that arrive together share it. Before the first decision, the host creates the tables with the SQL of `postgresSchema`.
 *
 * With `rememberRefusals`, a rejection from memory is returned synchronously. An answer from the server is returned as a promise.
 *
 * @throws {OptionError} If an option has an invalid value.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin from 'fastify-llm-quota'
 * import { PostgresQuotaStore } from 'fastify-llm-quota/postgres'
 * import pg from 'pg'
 *
 * const pool = new pg.Pool({ connectionString: 'postgres://postgres.example/service' })
 * await Fastify().register(quotaPlugin, { store: new PostgresQuotaStore({ pool, table: 'limits.llm_quota' }) })
 * ```
 */
export class PostgresQuotaStore extends PostgresQuota {
  readonly #shared: Shared
  readonly #quotas = new Map<string, PostgresQuota>()

  constructor (options: PostgresQuotaStoreOptions) {
    assertOptions<PostgresQuotaStoreOptions>(options, {
      pool: withFunctions('a connection pool', 'query'), table: assertTable, maxTrackedCallers: assertMaxTrackedCallers, rememberRefusals: assertBoolean, clock: assertFunction
    })
    const { pool, table = defaultTable, maxTrackedCallers = defaultMaxTrackedCallers, rememberRefusals = true, clock } = options
    if (pool === undefined) throw new OptionError('pool', 'must be a connection pool with a function query', pool)
    const database = new Database(pool, table)
    const shared = { database, places: new Places(database, () => clock?.() ?? null), maxTrackedCallers, rememberRefusals, clock }
    super(shared, 'default', windowLength)
    this.#shared = shared
  }

  quota (name: string, window: number): PostgresQuota {
    const quota = this.#quotas.get(name) ?? new PostgresQuota(this.#shared, name, window)
    this.#quotas.set(name, quota)
    return quota
  }

  override async clearCounters (): Promise<void> {
    await super.clearCounters()
    for (const quota of this.#quotas.values()) await quota.clearCounters()
  }
}
