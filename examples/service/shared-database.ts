import type { FastifyBaseLogger } from 'fastify'
import { postgresSchema, PostgresQuotaStore } from 'fastify-llm-quota/postgres'
import type { Shared } from './plugins/shared.js'

// How long a connection and a statement may take, in milliseconds. The fallback answers sooner.
const connectionTimeout = 1_000
const statementTimeout = 5_000

// Instances that start at the same time create the schema one after another. The number identifies the lock.
const schema = `
  SELECT pg_advisory_xact_lock(521630);
  ${postgresSchema()};
  CREATE TABLE IF NOT EXISTS language_service_preference (name text PRIMARY KEY, value text NOT NULL)`

/**
 * Connects to the PostgreSQL database at `DATABASE_URL`, and creates what the service needs there. Other services do this in a migration.
 *
 * @throws If the database does not answer or does not allow it.
 */
export async function connectDatabase (connectionString: string, log: FastifyBaseLogger, clock: { clock?: () => number }): Promise<Shared> {
  const { default: pg } = await import('pg')
  const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: connectionTimeout, query_timeout: statementTimeout })
  pool.on('error', ({ name, message }) => { log.debug({ error: { name, message } }, 'the connection to the database') })
  try {
    await pool.query(schema)
  } catch (error) {
    await pool.end()
    // The message can contain the user name.
    throw new Error(`DATABASE_URL: the tables cannot be created (${error instanceof Error && 'code' in error ? error.code : 'the database does not answer'})`)
  }
  return {
    store: new PostgresQuotaStore({ pool, ...clock }),
    async read (name) {
      const { rows: [row] } = await pool.query('SELECT value FROM language_service_preference WHERE name = $1', [name])
      return row?.value
    },
    async write (name, value) {
      if (value === null) await pool.query('DELETE FROM language_service_preference WHERE name = $1', [name])
      else await pool.query('INSERT INTO language_service_preference VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value', [name, String(value)])
    },
    async disconnect () { await pool.end() }
  }
}
