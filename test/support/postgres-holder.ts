// A process of its own: takes places for requests in flight, says how many it has, and gives them back when it gets a message.
import { once } from 'node:events'
import pg from 'pg'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { acquireOne, place } from './acquire-one.js'

const [, , connectionString, caller = '', limit] = process.argv
const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 1_000, query_timeout: 5_000 })
pool.on('error', () => {})
const store = new PostgresQuotaStore({ pool })
const acquisitions = await Promise.all(Array.from({ length: Number(limit) }, () => acquireOne(store, caller, place(Number(limit)))))
process.send?.(acquisitions.filter(({ admitted }) => admitted).length)
await once(process, 'message')
for (const acquisition of acquisitions) await store.release(acquisition, 1)
process.exit()
