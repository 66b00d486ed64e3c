import { PGlite } from '@electric-sql/pglite'
import t from 'tap'
import { postgresSchema } from '../../lib/postgres.js'

/** PGlite, which is PostgreSQL in this process, with the schema. Its tables are for all tests. */
export const pool = await PGlite.create()
t.teardown(async () => {
  await pool.close()
})
await pool.exec(postgresSchema())
