// The PostgreSQL store with the server's clock, and with another client than pg.
import postgres from 'postgres'
import t from 'tap'
import { PostgresQuotaStore, postgresSchema, type PostgresPool } from '../../lib/postgres.js'
import { quotaStoreContract } from '../../lib/testing.js'
import { acquireOne } from '../support/demands.js'
import { startPostgres } from '../support/postgres-server.js'

const { server, pool } = await startPostgres(t)

t.test('the store uses the clock of the server', async (t) => {
  const store = new PostgresQuotaStore({ pool, rememberRejections: false })
  await acquireOne(store, 'alice')
  await pool.query('UPDATE llm_quota SET ends = ends - 30000')
  const { windowRemaining } = await acquireOne(store, 'alice')
  t.ok(Number(windowRemaining) > 0 && Number(windowRemaining) <= 30_000, `${windowRemaining} ms`)
})

t.test(
  'postgres.js, in a database with another encoding, passes each check of quotaStoreContract',
  { timeout: 300_000 },
  async (t) => {
    await pool.query("CREATE DATABASE latin1 ENCODING 'LATIN1' TEMPLATE template0")
    const sql = postgres(server.url.replace(/postgres$/, 'latin1'))
    await sql.unsafe(postgresSchema())
    t.teardown(() => sql.end())
    const client: PostgresPool = {
      query: async (text, values) => ({ rows: await sql.unsafe(text, values as (string | null)[]) })
    }
    const checks = quotaStoreContract(async (options) => {
      const store = new PostgresQuotaStore({ pool: client, rememberRejections: false, ...options })
      await store.clearCounters()
      return store
    })
    // Longer windows do not depend on the client.
    for (const { name, run } of checks) {
      if (!/of one (hour|day)$/.test(name)) await t.resolves(run(), name)
    }
  }
)
