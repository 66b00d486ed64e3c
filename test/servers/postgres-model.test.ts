// The PostgreSQL store on a real server, compared step by step with the model.
import t from 'tap'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { compareWithModel } from '../support/compare-stores.js'
import { startPostgres } from '../support/postgres-server.js'

const walks = Number(process.env.RANDOM_WALKS ?? 40)

t.test(`the store has the same results as the model, in ${walks * 500} random steps`, async (t) => {
  const { pool } = await startPostgres(t)
  const seen = await compareWithModel({
    async create (options) {
      const store = new PostgresQuotaStore({ pool, rememberRefusals: false, ...options })
      await store.clearCounters()
      return store
    },
    walks,
    hasLeases: true
  })
  t.comment(JSON.stringify(seen))
  t.ok(Object.values(seen).every((count) => count > 2 * walks), 'every kind of step was taken often')
})
