import type { FastifyInstance } from 'fastify'
import { InsuredQuotaStore, MemoryQuotaStore } from 'fastify-llm-quota'
import { PostgresQuotaStore, postgresSchema } from 'fastify-llm-quota/postgres'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import createPlugin from 'fastify-plugin'
import { Redis } from 'ioredis'
import { Pool } from 'pg'

/** The clock of the counters, which returns milliseconds. */
export interface Clock {
  readonly clock?: () => number
}

export interface Preferences {
  get(key: string): unknown
  /** Changes a preference for all instances; null unsets it. */
  change(key: string, value: number | null): Promise<unknown>
}

/**
 * Keeps counters and preferences on the server at `REDIS_URL` or `DATABASE_URL`, if there is one,
 * else in this process.
 */
export default createPlugin(
  async function shared (app, clock: Clock) {
    const { REDIS_URL, DATABASE_URL } = app.config
    if (REDIS_URL !== undefined) return useRedis(app, REDIS_URL, clock)
    if (DATABASE_URL !== undefined) return await usePostgres(app, DATABASE_URL, clock)
    const values = new Map<string, number | null>()
    app.decorate('quotaStore', new MemoryQuotaStore(clock))
    app.decorate('preferences', {
      get: (key) => values.get(key),
      change: async (key, value) => values.set(key, value)
    } satisfies Preferences)
  },
  { name: 'shared', dependencies: ['environment'] }
)

function useRedis (app: FastifyInstance, url: string, clock: Clock): void {
  // The fallback answers sooner than a second attempt would.
  const client = new Redis(url, {
    maxRetriesPerRequest: 0,
    socketTimeout: 1000,
    retryStrategy: () => 500,
    reconnectOnError: ({ message }) => message.includes('READONLY')
  })
  client.on('error', ({ message }) => {
    app.log.debug({ message }, 'the connection to the shared server')
  })
  app.addHook('onClose', async () => {
    client.disconnect()
  })
  app.decorate(
    'quotaStore',
    new InsuredQuotaStore({ primary: new RedisQuotaStore({ client, ...clock }) })
  )
  const hash = 'language-service:preferences'
  app.decorate('preferences', {
    get: (key) => client.hget(hash, key),
    change: (key, value) =>
      value === null ? client.hdel(hash, key) : client.hset(hash, key, value)
  } satisfies Preferences)
}

async function usePostgres (
  app: FastifyInstance,
  connectionString: string,
  clock: Clock
): Promise<void> {
  const pool = new Pool({ connectionString, connectionTimeoutMillis: 1000, query_timeout: 5000 })
  pool.on('error', ({ message }) => {
    app.log.debug({ message }, 'the connection to the database')
  })
  app.addHook('onClose', async () => {
    await pool.end()
  })
  // Other services do this in a migration. The lock is for instances that start at the same time.
  await pool.query(`SELECT pg_advisory_xact_lock(521630); ${postgresSchema()};
    CREATE TABLE IF NOT EXISTS language_service_preference (name text PRIMARY KEY, value text)`)
  app.decorate(
    'quotaStore',
    new InsuredQuotaStore({ primary: new PostgresQuotaStore({ pool, ...clock }) })
  )
  const change =
    'INSERT INTO language_service_preference VALUES ($1, $2) ' +
    'ON CONFLICT (name) DO UPDATE SET value = excluded.value'
  app.decorate('preferences', {
    get: async (key) =>
      (await pool.query('SELECT value FROM language_service_preference WHERE name = $1', [key]))
        .rows[0]?.value,
    change: (key, value) => pool.query(change, [key, value])
  } satisfies Preferences)
}
