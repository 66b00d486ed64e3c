import { setFlagsFromString } from 'node:v8'
import { PGlite } from '@electric-sql/pglite'
import t from 'tap'
import { postgresSchema } from '../../lib/postgres.js'

// To optimize WebAssembly takes more time than it saves here: 3 s of CPU time on Node.js 20.
setFlagsFromString('--liftoff-only')

/** PGlite, which is PostgreSQL in this process, with the schema. Its tables are for all tests. */
export const pool = await PGlite.create()
t.teardown(async () => {
  await pool.close()
})
await pool.exec(postgresSchema())
