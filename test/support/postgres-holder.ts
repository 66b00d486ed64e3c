// A process of its own: takes places for requests in flight, says how many it has, and gives them back when it gets a message.
import { once } from 'node:events'
import pg from 'pg'
import { PostgresQuotaStore } from '../../lib/postgres.js'

const [, , connectionString, caller = '', limit] = process.argv
const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 1_000, query_timeout: 5_000 })
pool.on('error', () => {})
const store = new PostgresQuotaStore({ pool })
const entries = await Promise.all(Array.from({ length: Number(limit) }, () => store.enter(caller, Number(limit))))
process.send?.(entries.filter(({ admitted }) => admitted).length)
await once(process, 'message')
for (const { leave } of entries) await leave?.()
process.exit()
