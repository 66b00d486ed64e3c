import { assertBoolean, assertFunction, assertOptions, withFunctions } from '../../option-checks.js'
import { windowLength } from '../counter.js'
import { RememberedRejections } from '../remembered-rejections.js'
import { assertMaxTrackedCallers, defaultMaxTrackedCallers, type Acquisition, type Entry, type QuotaCount, type QuotaStore, type QuotaStoreState } from '../store.js'
import { Batches } from './batches.js'
import { Database, readNumbers, type PostgresPool } from './database.js'
import { Places } from './places.js'
import { assertTable, defaultTable } from './schema.js'

const assertPool = withFunctions('a connection pool', 'query')

interface Decision { readonly callerKey: string, readonly time: number | null, readonly limit: number, readonly cost: number, asked: number }

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
 */
export class PostgresQuotaStore implements QuotaStore {
  /** The caller cap: how many callers can have a counter of their own, in each quota. */
  readonly maxTrackedCallers: number
  /** The table for the counters. */
  readonly table: string
  readonly #options: PostgresQuotaStoreOptions
  /** Returns the time of the store's own clock; null for the server's. */
  readonly #time: () => number | null
  readonly #rejections: RememberedRejections | undefined
  readonly #decisions = new Batches<Decision, Acquisition>((decisions) => this.#decide(decisions))
  readonly #quotas = new Map<string, PostgresQuotaStore>()
  #database: Database
  #places: Places
  #name = 'default'
  #window = windowLength

  constructor (options: PostgresQuotaStoreOptions) {
    assertOptions<PostgresQuotaStoreOptions>(options, {
      pool: assertPool, table: assertTable, maxTrackedCallers: assertMaxTrackedCallers, rememberRefusals: assertBoolean, clock: assertFunction
    })
    const { pool, table = defaultTable, maxTrackedCallers = defaultMaxTrackedCallers, rememberRefusals = true, clock } = options
    assertPool(pool, 'pool')
    this.maxTrackedCallers = maxTrackedCallers
    this.table = table
    this.#options = options
    this.#time = () => clock?.() ?? null
    this.#rejections = rememberRefusals ? new RememberedRejections(maxTrackedCallers) : undefined
    this.#database = new Database(pool, table)
    this.#places = new Places(this.#database, this.#time)
  }

  acquire (callerKey: string, limit: number, cost = 1): Acquisition | Promise<Acquisition> {
    const time = this.#time()
    const ask = (): Promise<Acquisition> => this.#decisions.add({ callerKey, time, limit, cost, asked: 0 })
    return this.#rejections?.acquire(callerKey, limit, time ?? performance.now(), ask) ?? ask()
  }

  quota (name: string, window: number): PostgresQuotaStore {
    let quota = this.#quotas.get(name)
    if (quota === undefined) {
      quota = new PostgresQuotaStore(this.#options)
      quota.#name = name
      quota.#window = window
      quota.#database = this.#database
      quota.#places = this.#places
      this.#quotas.set(name, quota)
    }
    return quota
  }

  enter (callerKey: string, limit: number): Promise<Entry> {
    return this.#places.enter(this.#name, callerKey, limit)
  }

  async peek (callerKey: string): Promise<QuotaCount | null> {
    const reply = await this.#database.call('peek', this.#name, this.#window, this.maxTrackedCallers, this.#time(), callerKey)
    if (reply === '') return null
    const [count, windowRemaining, flags] = readNumbers(reply)
    return { count, windowRemaining, overflow: flags === 2 }
  }

  // Answers that arrive until the statement has ended may be older than it, so what they made the store remember is removed after it.
  async forget (callerKey: string): Promise<void> {
    await this.#database.call('forget', this.#name, callerKey).finally(() => this.#rejections?.forget(callerKey))
  }

  async clearCounters (): Promise<void> {
    await this.#database.call('clear', this.#name).finally(() => this.#rejections?.clear())
    for (const quota of this.#quotas.values()) await quota.clearCounters()
  }

  async inspect (): Promise<QuotaStoreState> {
    const [trackedCallers, sweeps] = readNumbers(await this.#database.call('inspect', this.#name, this.#window) || '0 0')
    return { trackedCallers, sweeps }
  }

  async #decide (decisions: readonly Decision[]): Promise<readonly (Acquisition | undefined)[]> {
    const reply = await this.#database.call('acquire', this.#name, this.#window, this.maxTrackedCallers, decisions[0]?.time ?? null,
      Math.max(...decisions.map(({ asked }) => asked)), decisions.map(({ callerKey }) => callerKey),
      decisions.map(({ limit }) => limit), decisions.map(({ cost }) => cost))
    const replies = reply.split(',')
    return decisions.map((decision, index) => {
      decision.asked += 1
      if (replies[index] === '') return undefined
      const [count, windowRemaining, flags] = readNumbers(replies[index])
      return { admitted: flags % 2 === 1, count, windowRemaining, overflow: flags >= 2 }
    })
  }
}
