import { createHash } from 'node:crypto'
import { namesOf, schemaVersion } from './schema.js'

/** A connection pool: a `Pool` of `pg`, or anything else with this function. */
export interface PostgresPool {
  /**
   * Runs one statement in its own transaction. The values of its parameters `$1`, `$2` and so on
   * are strings or null.
   */
  query(text: string, values: unknown[]): Promise<Readonly<Record<'rows', readonly unknown[]>>>
}

type Parameter = string | number | null

/**
 * A `Pool` of `pg` can have the server parse a statement with a name only once for each connection,
 * which saves a third of its work.
 */
interface NamingPool {
  query(statement: {
    name: string
    text: string
    values: unknown[]
  }): ReturnType<PostgresPool['query']>
}

// A transaction pooler that does not know named statements: none of this name exists, or one
// already does. Nothing was executed.
const unknownNameCodes: readonly unknown[] = ['26000', '42P05']

/**
 * Calls the function of the schema whose name is the table's with `_` and the given one. Returns
 * the text that it returns, or null.
 */
export type CallFunction = (
  name: string,
  ...parameters: readonly Parameter[]
) => Promise<string | null>

export function functionsOf (pool: PostgresPool, table: string): CallFunction {
  const nameOf = namesOf(table)
  const statements = new Statements(pool)
  const known = new Map<string, Statement>()
  let isChecked = false

  /** Throws an error that names what is missing, unless the schema is there. */
  async function check (): Promise<void> {
    const statement = statementOf(
      "SELECT CASE WHEN to_regproc($1) IS NOT NULL THEN 'this' " +
        "WHEN to_regclass($2) IS NOT NULL THEN 'another' END AS reply"
    )
    const found = await statements.run(
      statement,
      [nameOf(`_version_${schemaVersion}`), nameOf('')]
    )
    if (found === null) {
      throw new Error(
        `the table ${table} does not exist, or the role has no USAGE on its schema: run the SQL ` +
          'of postgresSchema, or grant the privileges'
      )
    }
    if (found === 'another') {
      throw new Error(
        `the table ${table} is not of version ${schemaVersion} of the schema: choose another ` +
          'table, or drop this one with its functions, and run the SQL of postgresSchema'
      )
    }
    isChecked = true
  }

  return async (name, ...parameters) => {
    if (!isChecked) await check()
    let statement = known.get(name)
    if (statement === undefined) {
      const places = parameters.map((_, index) => `$${index + 1}`)
      statement = statementOf(`SELECT ${nameOf(`_${name}`)}(${places.join()}) AS reply`)
      known.set(name, statement)
    }
    return await statements.run(
      statement,
      parameters.map((parameter) => (parameter === null ? null : String(parameter)))
    )
  }
}

/** The name of a statement is that of its text in all processes. */
interface Statement {
  readonly name: string
  readonly text: string
}

function statementOf (text: string): Statement {
  return { name: createHash('sha1').update(text).digest('hex'), text }
}

/** Runs statements of one row and column, by name if the pool can. */
class Statements {
  readonly #pool: PostgresPool
  #namingPool: NamingPool | null

  constructor (pool: PostgresPool) {
    this.#pool = pool
    this.#namingPool = isNamingPool(pool) ? pool : null
  }

  async run ({ name, text }: Statement, values: (string | null)[]): Promise<string | null> {
    const namingPool = this.#namingPool
    if (namingPool === null) return readReply(await this.#pool.query(text, values))
    try {
      return readReply(await namingPool.query({ name, text, values }))
    } catch (error) {
      if (!unknownNameCodes.includes(codeOf(error))) throw error
      this.#namingPool = null
      return readReply(await this.#pool.query(text, values))
    }
  }
}

/** Returns the text of the column `reply` of the only row. */
function readReply ({ rows }: Awaited<ReturnType<PostgresPool['query']>>): string | null {
  const [row] = rows
  if (typeof row !== 'object' || row === null || !('reply' in row)) {
    throw new TypeError('the reply of PostgreSQL has no row with a column reply')
  }
  const { reply } = row
  // A function without a result returns an empty text.
  if (reply === null || reply === '') return null
  if (typeof reply !== 'string') throw new TypeError('the reply of PostgreSQL is not a text')
  return reply
}

/** Returns the code of an error; undefined if it has none. */
export function codeOf (error: unknown): unknown {
  const hasCode = typeof error === 'object' && error !== null && 'code' in error
  return hasCode ? error.code : undefined
}

// If the host has replaced the `query` of `pg`'s `Pool`, perhaps by a function that takes only a
// text, it does not stand beside `connect`.
function isNamingPool (pool: object): pool is NamingPool {
  const owner = chainOf(pool).find((each) => Object.hasOwn(each, 'query'))
  return 'totalCount' in pool && owner !== undefined && Object.hasOwn(owner, 'connect')
}

/** Returns an object and its prototypes. */
function chainOf (object: object): object[] {
  const chain: object[] = []
  for (let each: object | null = object; each !== null; each = Object.getPrototypeOf(each)) {
    chain.push(each)
  }
  return chain
}
