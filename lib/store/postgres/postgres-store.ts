import { assertBoolean, assertFunction, assertOptions, withFunctions } from '../../option-checks.js'
import { SharedStore } from '../shared/shared-store.js'
import { assertMaxTrackedCallers, defaultMaxTrackedCallers } from '../store.js'
import { functionsOf, type PostgresPool } from './database.js'
import { PostgresDriver } from './postgres-driver.js'
import { assertTable, defaultTable } from './schema.js'

const assertPool = withFunctions('a connection pool', 'query')

/** Options of `PostgresQuotaStore`. */
export interface PostgresQuotaStoreOptions {
  /** The host's connection pool for PostgreSQL 14 or later: a `Pool` of `pg`, or a `PostgresPool`. The store never closes it. */
  readonly pool: PostgresPool
  /** The table that `postgresSchema` has created, with or without a schema. Default `llm_quota`. */
  readonly table?: string
  /** The caller cap: how many callers can have a counter of their own, in each quota. Default 10,000. */
  readonly maxTrackedCallers?: number
  /** Whether to reject, for up to a second and without a statement, requests that are known to have no room. Default true. */
  readonly rememberRejections?: boolean
  /** Returns monotonic milliseconds. Default: the server's clock. Replace it in tests. */
  readonly clock?: () => number
}

/**
 * Stores the quota counters in a table of a PostgreSQL server that several instances of a service share. A decision on all quotas of a
 * request takes one statement, and decisions that arrive together share it. Before the first decision, the host creates the table with the
 * SQL of `postgresSchema`.
 *
 * With `rememberRejections`, a rejection from memory is returned synchronously. A result from the server is returned as a promise.
 *
 * @throws {OptionError} If an option has an invalid value.
 */
export class PostgresQuotaStore extends SharedStore {
  /** The table. */
  readonly table: string

  constructor (options: PostgresQuotaStoreOptions) {
    assertOptions<PostgresQuotaStoreOptions>(options, {
      pool: assertPool,
      table: assertTable,
      maxTrackedCallers: assertMaxTrackedCallers,
      rememberRejections: assertBoolean,
      clock: assertFunction
    })
    const { pool, table = defaultTable, maxTrackedCallers = defaultMaxTrackedCallers, rememberRejections = true, clock } = options
    assertPool(pool, 'pool')
    super({ drivers: [new PostgresDriver(functionsOf(pool, table), maxTrackedCallers)], maxTrackedCallers, rememberRejections, clock })
    this.table = table
  }

  override shardOf (): number {
    return 0
  }
}
