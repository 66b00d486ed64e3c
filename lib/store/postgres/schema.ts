import { required } from '../../required.js'
import { assertBoolean, assertOptions, checkThat } from '../../option-checks.js'
import source from './schema.sql.js'

export const defaultTable = 'llm_quota'
// That of schema.sql.
export const schemaVersion = 7
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
  const named = source.replaceAll(
    /('?)\bllm_quota(\w*)\1/g,
    (_found, quote: string, suffix: string) =>
      quote === '' ? nameOf(suffix) : `'${nameOf(suffix).replaceAll("'", "''")}'`
  )
  return unlogged ? named : named.replaceAll('CREATE UNLOGGED TABLE', 'CREATE TABLE')
}

/**
 * Returns a function that returns the quoted name of the table or function whose name is the
 * table's with a suffix.
 */
export function namesOf (table: string): (suffix: string) => string {
  const parts = required(tableAndSchema.exec(table), 'the name of the table')
  const schema = parts[1]
  const name = required(parts[2], 'the name of the table')
  const prefix = schema === undefined ? '' : `${quoted(unquoted(schema))}.`
  return (suffix) => prefix + quoted(unquoted(name) + suffix)
}

function unquoted (part: string): string {
  return part.replace(/^"(.+)"$/s, '$1').replaceAll('""', '"')
}

function quoted (part: string): string {
  return `"${part.replaceAll('"', '""')}"`
}

/** Throws an `OptionError` unless the value is the name of a table. */
export const assertTable = checkThat(
  `must be a table's name of at most ${longestTableName} bytes, or a schema's and a table's name ` +
    'with a dot between them',
  (value) =>
    typeof value === 'string' &&
    Buffer.byteLength(value) <= longestTableName &&
    tableAndSchema.test(value) &&
    !/\0|\$(function|schema)\$/.test(value)
)
