// A process of its own: takes places for concurrent requests, says how many it has, and gives them
// back when it gets a message.
import { once } from 'node:events'
import { Redis } from 'ioredis'
import pg from 'pg'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { acquireOne, place } from './demands.js'

const [, , url = '', caller = '', limit] = process.argv

function createStore () {
  if (url.startsWith('redis:')) {
    const client = new Redis(url, {
      maxRetriesPerRequest: 0,
      socketTimeout: 5_000,
      retryStrategy: () => 50
    })
    return new RedisQuotaStore({ client: client.on('error', () => {}) })
  }
  const pool = new pg.Pool({
    connectionString: url,
    connectionTimeoutMillis: 1_000,
    query_timeout: 5_000
  })
  return new PostgresQuotaStore({ pool: pool.on('error', () => {}) })
}

const store = createStore()
const acquisitions = await Promise.all(
  Array.from({ length: Number(limit) }, () => acquireOne(store, caller, place(Number(limit))))
)
process.send?.(acquisitions.filter(({ admitted }) => admitted).length)
await once(process, 'message')
for (const { receipt } of acquisitions) {
  if (receipt !== undefined) await store.settle(receipt, { count: 1, held: 1 })
}
process.exit()
