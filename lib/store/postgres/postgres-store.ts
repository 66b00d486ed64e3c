import { assertBoolean, assertOptions, withFunctions } from '../../option-checks.js'
import { sharedChecks, SharedStore, type SharedQuotaStoreOptions } from '../shared/shared-store.js'
import type { PostgresPool } from './connections.js'
import { SchemaFunctions } from './functions.js'
import { PostgresDriver } from './postgres-driver.js'
import { assertTable, defaultTable } from './schema.js'

const assertPool = withFunctions('a connection pool', 'query')

/** Options of `PostgresQuotaStore`. */
export interface PostgresQuotaStoreOptions extends SharedQuotaStoreOptions {
  /**
   * The host's connection pool for PostgreSQL 14 or later: a `Pool` of `pg`, or a `PostgresPool`.
   * The store never closes it.
   */
  readonly pool: PostgresPool
  /** The table that `postgresSchema` has created, with or without a schema. Default `llm_quota`. */
  readonly table?: string
  /**
   * Whether each change of a counter of an enforced quota in a unit other than requests is also a
   * row of the journal, as it was given to `postgresSchema`. Default false.
   */
  readonly journal?: boolean
}

/**
 * Stores the quota counters in a table of a PostgreSQL server that several instances of a service
 * share. A decision on all quotas of a request takes one statement, and decisions that arrive
 * together share it. Before the first decision, the host creates the table with the SQL of
 * `postgresSchema`.
 *
 * With `rememberRejections`, requests that are known to have no room are rejected from memory, for
 * up to a second and without asking the server.
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
      journal: assertBoolean,
      ...sharedChecks
    })
    const { pool, table = defaultTable, journal = false, maxTrackedCallers = Infinity } = options
    assertPool(pool, 'pool')
    const functions = new SchemaFunctions(pool, table, journal)
    super(options, new PostgresDriver(functions, { cap: maxTrackedCallers, hasJournal: journal }))
    this.table = table
  }
}
