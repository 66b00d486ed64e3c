import { required } from '../../required.js'
import {
  Connections,
  statementOf,
  type PostgresPool,
  type Statement,
  type StatementRunner
} from './connections.js'
import { readFields } from './fields.js'
import { quoted, schemaVersion, tableNameOf } from './schema.js'

type Parameter = string | number | null

/** The functions of the schema, on one connection. One call of `call` or `release` follows. */
export interface ConnectedFunctions {
  /** Rejects, and releases the connection, if the schema lacks what the store needs. */
  check(): Promise<void>
  /**
   * Calls the function whose name is the table's with `_` and the given one, and releases the
   * connection. Returns the text that the function returns, or null.
   */
  call(name: string, ...parameters: readonly Parameter[]): Promise<string | null>
  /** Releases the connection without a call. */
  release(): void
}

/** The functions that `postgresSchema` has created. */
export class SchemaFunctions {
  readonly #connections: Connections
  readonly #table: string
  readonly #hasJournal: boolean
  readonly #known = new Map<string, Statement>()
  /** The quoted name of the schema, once it is known that it has what the store needs. */
  #schema: string | undefined

  /** @param hasJournal Whether the schema must have a journal. */
  constructor (pool: PostgresPool, table: string, hasJournal: boolean) {
    this.#connections = new Connections(pool)
    this.#table = table
    this.#hasJournal = hasJournal
  }

  /** Rejects if there is no connection. */
  async connect (): Promise<ConnectedFunctions> {
    const runner = await this.#connections.lend()
    return {
      check: async () => {
        this.#schema ??= await releasedOnError(runner, () => this.#find(runner))
      },
      call: async (name, ...parameters) => {
        const statement = this.#statementOf(name, parameters.length)
        const values = parameters.map((each) => (each === null ? null : String(each)))
        const reply = await releasedOnError(runner, () => runner.run(statement, values))
        runner.release()
        return reply
      },
      release () {
        runner.release()
      }
    }
  }

  /** As `ConnectedFunctions.call`, on a connection of its own. */
  async call (name: string, ...parameters: readonly Parameter[]): Promise<string | null> {
    const functions = await this.connect()
    await functions.check()
    return await functions.call(name, ...parameters)
  }

  #statementOf (name: string, parameters: number): Statement {
    const known = this.#known.get(name)
    if (known !== undefined) return known
    const schema = required(this.#schema, 'the schema of the table')
    const places = Array.from({ length: parameters }, (_, index) => `$${index + 1}`)
    const called = `${schema}.${quoted(`${tableNameOf(this.#table).name}_${name}`)}`
    const statement = statementOf(`SELECT ${called}(${places.join()}) AS reply`)
    this.#known.set(name, statement)
    return statement
  }

  /**
   * Returns the quoted name of the table's schema: without one in the name of the table, the first
   * in the search path that has the table. Throws an error that names what is missing.
   */
  async #find (runner: StatementRunner): Promise<string> {
    const table = this.#table
    const { schema, name } = tableNameOf(table)
    const fullName = schema === null ? quoted(name) : `${quoted(schema)}.${quoted(name)}`
    const reply = await runner.run(lookUp, [
      fullName,
      `${name}_version_${schemaVersion}`,
      `${name}_journal`
    ])
    if (reply === null) {
      throw new Error(
        `the table ${table} does not exist, or the role has no USAGE on its schema: run the SQL ` +
          'of postgresSchema, or grant the privileges'
      )
    }
    const found = readFields(reply)
    if (!found.boolean('isThisVersion')) {
      throw new Error(
        `the table ${table} is not of version ${schemaVersion} of the schema: choose another ` +
          'table, or drop this one with its functions, and run the SQL of postgresSchema'
      )
    }
    const hasJournal = found.boolean('hasJournal')
    if (this.#hasJournal && !hasJournal) {
      throw new Error(
        `the table ${table} has no journal: run the SQL of postgresSchema with journal: true for ` +
          'another table, or create the store without it'
      )
    }
    if (!this.#hasJournal && hasJournal) {
      throw new Error(
        `the table ${table} has a journal, which lacks what other stores count: create the store ` +
          'with journal: true'
      )
    }
    return quoted(found.text('schema'))
  }
}

const lookUp = statementOf(`SELECT (
  SELECT json_build_object(
    'schema', namespace.nspname,
    'isThisVersion', EXISTS (
      SELECT FROM pg_proc WHERE pronamespace = namespace.oid AND proname = $2
    ),
    'hasJournal', EXISTS (
      SELECT FROM pg_class WHERE relnamespace = namespace.oid AND relname = $3
    )
  )
  FROM pg_class AS quota JOIN pg_namespace AS namespace ON namespace.oid = quota.relnamespace
  WHERE quota.oid = to_regclass($1)
)::text AS reply`)

/** Releases the connection if the work on it fails, so that the pool closes it. */
async function releasedOnError<Result> (
  runner: StatementRunner,
  work: () => Promise<Result>
): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    runner.release(error)
    throw error
  }
}
