import { createHash } from 'node:crypto'
import { hasFunction } from '../../option-checks.js'
import { namesOf, schemaVersion } from './schema.js'

/** A connection pool: a `Pool` of `pg`, or anything else with this function. */
export interface PostgresPool {
  /** Runs one statement in its own transaction. The values of its parameters `$1`, `$2` and so on are strings or null. */
  query (text: string, values: unknown[]): Promise<Readonly<Record<'rows', readonly unknown[]>>>
}

type Parameter = string | number | null | readonly (string | number | null)[]

/** A `Pool` of `pg` can have the server parse a statement with a name only once for each connection, which saves a third of its work. */
interface NamingPool { query (statement: { name: string, text: string, values: unknown[] }): ReturnType<PostgresPool['query']> }

// A transaction pooler that does not know named statements: none of this name exists, or one already does. Nothing was executed.
const unknownNameCodes = ['26000', '42P05']

/** Calls the function of the schema whose name is the table's with `_` and the given one. */
export type CallFunction = (name: string, ...parameters: readonly Parameter[]) => Promise<string>

export function functionsOf (pool: PostgresPool, table: string): CallFunction {
  const nameOf = namesOf(table)
  let namingPool = 'totalCount' in pool && hasFunction(pool, 'connect') ? pool as unknown as NamingPool : undefined
  let isChecked = false

  async function query (text: string, values: (string | null)[]): Promise<string> {
    const naming = namingPool
    try {
      const name = createHash('sha1').update(text).digest('hex')
      const { rows: [row] } = await (naming?.query({ name, text, values }) ?? pool.query(text, values))
      const { reply }: { reply?: unknown } = Object(row)
      return String(reply ?? '')
    } catch (error) {
      const { code }: { code?: unknown } = Object(error)
      if (naming === undefined || !unknownNameCodes.includes(String(code))) throw error
      namingPool = undefined
      return await query(text, values)
    }
  }

  return async (name, ...parameters) => {
    isChecked ||= await query('SELECT to_regproc($1)::text AS reply', [nameOf(`_version_${schemaVersion}`)]) !== ''
    if (!isChecked) {
      throw new Error(`the schema for the table ${table} is missing or not version ${schemaVersion}: run the SQL of postgresSchema`)
    }
    const places = parameters.map((_, index) => `$${index + 1}`)
    return await query(`SELECT ${nameOf(`_${name}`)}(${places.join()}) AS reply`, parameters.map(textOf))
  }
}

function textOf (value: Parameter): string | null {
  if (value === null || typeof value !== 'object') return value === null ? null : String(value)
  return `{${value.map((each) => typeof each === 'string' ? `"${each.replaceAll(/["\\]/g, '\\$&')}"` : String(each)).join()}}`
}
