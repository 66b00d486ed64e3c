// The PostgreSQL store on a real server, compared step by step with the memory store.
import t from 'tap'
import { compareWithMemory } from '../support/postgres-model.js'
import { startPostgres } from '../support/postgres-server.js'

const walks = Number(process.env.RANDOM_WALKS ?? 40)

t.test(`the store has the same results as the memory store, in ${walks * 500} random steps`, async (t) => {
  const { pool } = await startPostgres(t)
  const seen = await compareWithMemory(pool, walks)
  t.comment(JSON.stringify(seen))
  t.ok(Object.values(seen).every((count) => count > 2 * walks), 'every kind of step was taken often')
})
