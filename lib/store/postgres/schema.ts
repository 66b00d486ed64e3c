import { OptionError } from '../../errors.js'
import { required } from '../../required.js'
import { assertBoolean, assertOptions, checkThat } from '../../option-checks.js'
import source from './schema.sql.js'

export const defaultTable = 'llm_quota'
// That of schema.sql.
export const schemaVersion = 11
// PostgreSQL cuts names after 63 bytes, and those of the functions are longer than the table's.
const longestName = 63
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
  /**
   * Whether each change of a counter in a unit other than requests is also a row of a journal, for
   * exact bills. Requires `unlogged: false`. Default false.
   */
  readonly journal?: boolean
}

/**
 * Returns the SQL that creates the tables and functions of a `PostgresQuotaStore`, in the first
 * schema of the search path unless the name of the table has one. Run it once, in a migration.
 * Running it again changes nothing. docs/postgres.md lists the privileges that the service needs.
 *
 * @throws {OptionError} If an option has an invalid value.
 */
export function postgresSchema (options: PostgresSchemaOptions = {}): string {
  assertOptions<PostgresSchemaOptions>(options, {
    table: assertTable,
    unlogged: assertBoolean,
    journal: assertBoolean
  })
  const { table = defaultTable, unlogged = true, journal = false } = options
  if (journal && unlogged) {
    throw new OptionError('journal', 'can be true only with unlogged: false', journal)
  }
  const { schema, name } = tableNameOf(table)
  let sql = source.replaceAll(
    /('?)\bllm_quota(\w*)\1/g,
    (_found, quote: string, suffix: string) =>
      quote === '' ? quoted(name + suffix) : literal(quoted(name + suffix))
  )
  if (schema !== null) sql = sql.replace('current_schema()', () => literal(schema))
  if (!unlogged) sql = sql.replaceAll('CREATE UNLOGGED TABLE', 'CREATE TABLE')
  if (journal) sql = sql.replace('boolean := false', 'boolean := true')
  return sql
}

/** The name of a table, without quotes. */
interface TableName {
  /** Null if the search path says which. */
  readonly schema: string | null
  readonly name: string
}

export function tableNameOf (table: string): TableName {
  const parts = required(tableAndSchema.exec(table), 'the name of the table')
  const schema = parts[1]
  const name = required(parts[2], 'the name of the table')
  return { schema: schema === undefined ? null : unquoted(schema), name: unquoted(name) }
}

function unquoted (part: string): string {
  return part.replace(/^"(.+)"$/s, '$1').replaceAll('""', '"')
}

/** Returns a name as SQL has it. */
export function quoted (name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Returns a text as SQL has it. */
function literal (text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

/** Throws an `OptionError` unless the value is the name of a table. */
export const assertTable = checkThat(
  `must be a table's name of at most ${longestTableName} bytes, or a schema's name of at most ` +
    `${longestName} bytes, a dot and a table's name`,
  (value) => typeof value === 'string' && tableAndSchema.test(value) && isStorable(value)
)

function isStorable (table: string): boolean {
  if (/\0|\$(function|schema)\$/.test(table)) return false
  const { schema, name } = tableNameOf(table)
  return (
    Buffer.byteLength(name) <= longestTableName && Buffer.byteLength(schema ?? '') <= longestName
  )
}
