// The PostgreSQL store on PGlite, which is PostgreSQL in this process.
import { PGlite } from '@electric-sql/pglite'
import t from 'tap'
import { PostgresQuotaStore, postgresSchema } from '../../lib/postgres.js'
import { quotaStoreContract } from '../../lib/testing.js'
import { compareWithMemory } from '../support/postgres-model.js'

const pool = await PGlite.create()
t.teardown(async () => { await pool.close() })
await pool.exec(postgresSchema())

t.test('the store passes each check of quotaStoreContract', async (t) => {
  for (const rememberRefusals of [true, false]) {
    const checks = quotaStoreContract(async (options) => {
      const store = new PostgresQuotaStore({ pool, rememberRefusals, ...options })
      await store.clearCounters()
      return store
    })
    for (const { name, run } of checks) await t.resolves(run(), name)
  }
})

const walks = Number(process.env.RANDOM_WALKS ?? 10)

t.test(`the store has the same results as the memory store, in ${walks * 500} random steps`, async (t) => {
  const seen = await compareWithMemory(pool, walks)
  t.comment(JSON.stringify(seen))
  t.ok(Object.values(seen).every((count) => count > walks), 'every kind of step was taken often')
})
