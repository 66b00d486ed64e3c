import { createHash } from 'node:crypto'
import { assertBoolean, assertOptions, checkThat } from '../../option-checks.js'
import source from './schema.sql.js'

export const defaultTable = 'llm_quota'
// That of schema.sql.
const schemaVersion = 3
// The names of the functions are longer than the table's, and PostgreSQL cuts names after 63 bytes.
const longestTableName = 48
const tableAndSchema = /^(?:("(?:[^"]|"")+"|[^".]+)\.)?("(?:[^"]|"")+"|[^".]+)$/

/** Options of `postgresSchema`. */
export interface PostgresSchemaOptions {
  /** The table, as in the options of `PostgresQuotaStore`. Default `llm_quota`. */
  readonly table?: string
  /**
   * Whether the table is `UNLOGGED`: faster, but empty after a crash of the server, and not
   * replicated. Default true.
   */
  readonly unlogged?: boolean
}

/**
 * Returns the SQL that creates the table and functions of a `PostgresQuotaStore`. Run it once, in a
 * migration. Running it again changes nothing. docs/postgres.md lists the privileges that the
 * service needs.
 *
 * @throws {OptionError} If an option has an invalid value.
 */
export function postgresSchema (options: PostgresSchemaOptions = {}): string {
  assertOptions<PostgresSchemaOptions>(options, { table: assertTable, unlogged: assertBoolean })
  const { table = defaultTable, unlogged = true } = options
  const nameOf = namesOf(table)
  const sql = source.replaceAll(
    /('?)\bllm_quota(\w*)\1/g,
    (_found, quote: string, suffix: string) =>
      quote === '' ? nameOf(suffix) : `'${nameOf(suffix).replaceAll("'", "''")}'`
  )
  return unlogged ? sql : sql.replaceAll('CREATE UNLOGGED TABLE', () => 'CREATE TABLE')
}

/**
 * Returns a function that returns the quoted name of the table or function whose name is the
 * table's with a suffix.
 */
function namesOf (table: string): (suffix: string) => string {
  const parts: RegExpExecArray = Object(tableAndSchema.exec(table))
  const [schema, name = ''] = parts
    .slice(1)
    .map((part?: string) => part?.replace(/^"(.+)"$/s, '$1').replaceAll('""', '"'))
  const quoted = (part: string): string => `"${part.replaceAll('"', '""')}"`
  return (suffix) => (schema === undefined ? '' : `${quoted(schema)}.`) + quoted(name + suffix)
}

/** Throws an `OptionError` unless the value is the name of a table. */
export const assertTable = checkThat(
  `must be a table's name of at most ${longestTableName} bytes, or a schema's and a table's name with a dot between them`,
  (value) =>
    typeof value === 'string' &&
    Buffer.byteLength(value) <= longestTableName &&
    tableAndSchema.test(value) &&
    !/\0|\$(function|schema)\$/.test(value)
)

/** A connection pool: a `Pool` of `pg`, or anything else with this function. */
export interface PostgresPool {
  /**
   * Runs one statement in its own transaction. The values of its parameters `$1`, `$2` and so on
   * are strings or null.
   */
  query(text: string, values: unknown[]): Promise<Readonly<Record<'rows', readonly unknown[]>>>
}

type Parameter = string | number | null | readonly (string | number | null)[]

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
const unknownNameCodes = ['26000', '42P05']

/** Calls the function of the schema whose name is the table's with `_` and the given one. */
export type CallFunction = (name: string, ...parameters: readonly Parameter[]) => Promise<string>

export function functionsOf (pool: PostgresPool, table: string): CallFunction {
  const nameOf = namesOf(table)
  let namingPool = isNamingPool(pool) ? pool : undefined
  let isChecked = false

  async function query (text: string, values: (string | null)[]): Promise<string> {
    const naming = namingPool
    try {
      const name = createHash('sha1').update(text).digest('hex')
      const {
        rows: [row]
      } = await (naming?.query({ name, text, values }) ?? pool.query(text, values))
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
    isChecked ||=
      (await query('SELECT to_regproc($1)::text AS reply', [
        nameOf(`_version_${schemaVersion}`)
      ])) !== ''
    if (!isChecked) {
      throw new Error(
        `the schema for the table ${table} is missing or not version ${schemaVersion}: run the SQL of postgresSchema`
      )
    }
    const places = parameters.map((_, index) => `$${index + 1}`)
    return await query(
      `SELECT ${nameOf(`_${name}`)}(${places.join()}) AS reply`,
      parameters.map(textOf)
    )
  }
}

// If the host has replaced the `query` of `pg`'s `Pool`, perhaps by a function that takes only a
// text, it does not stand beside `connect`.
function isNamingPool (pool: object): pool is NamingPool {
  const owner = chainOf(pool).find((each) => Object.hasOwn(each, 'query'))
  return 'totalCount' in pool && Object.hasOwn(Object(owner), 'connect')
}

/** Returns an object and its prototypes. */
function chainOf (object: object | null): object[] {
  return object === null ? [] : [object, ...chainOf(Object.getPrototypeOf(object))]
}

function textOf (value: Parameter): string | null {
  if (value === null || typeof value !== 'object') return value === null ? null : String(value)
  return `{${value.map((each) => (typeof each === 'string' ? `"${each.replaceAll(/["\\]/g, '\\$&')}"` : String(each))).join()}}`
}
