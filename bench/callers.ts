// What a caller with a counter costs: bytes in the process's memory, on Redis and on PostgreSQL.
import { createHash } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { MemoryQuotaStore, type Demand, type QuotaStore } from 'fastify-llm-quota'
import { PostgresQuotaStore, postgresSchema } from 'fastify-llm-quota/postgres'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { PostgresServer } from '../test/support/postgres-server.js'
import { RedisServer } from '../test/support/redis-server.js'
import type { Row } from './table.js'

const atOnce = 128

/** Each caller has one request of a quota of requests per minute. */
export async function measureCallers (): Promise<Row[]> {
  const rows: Row[] = []
  for (const callers of [1_000, 1_000_000]) {
    const costs = {
      'in memory': await inMemory(callers),
      'on Redis': await onRedis(callers),
      'on PostgreSQL': await onPostgres(callers)
    }
    const row = { title: `${callers.toLocaleString('en')} callers`, unit: 'bytes a caller', costs }
    rows.push(row)
    console.error(row)
  }
  return rows
}

async function inMemory (callers: number): Promise<number> {
  setFlagsFromString('--expose-gc')
  const collect: unknown = runInNewContext('gc')
  if (typeof collect !== 'function') throw new TypeError('garbage cannot be collected')
  const store = new MemoryQuotaStore({ maxTrackedCallers: callers })
  collect()
  const before = process.memoryUsage().heapUsed
  await count(store, callers)
  collect()
  const cost = (process.memoryUsage().heapUsed - before) / callers
  // Also keeps the store alive until here.
  await assertAllTracked(store, callers)
  return cost
}

async function onRedis (callers: number): Promise<number> {
  const server = await RedisServer.start()
  const redis = server.client()
  const used = async (): Promise<number> => {
    return Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1])
  }
  const before = await used()
  const store = new RedisQuotaStore({ client: redis })
  await count(store, callers)
  const cost = ((await used()) - before) / callers
  await assertAllTracked(store, callers)
  redis.disconnect()
  await server.stop()
  return cost
}

async function onPostgres (callers: number): Promise<number> {
  const server = await PostgresServer.start()
  const pool = server.pool()
  await pool.query(postgresSchema())
  const store = new PostgresQuotaStore({ pool })
  await count(store, callers)
  const { rows } = await pool.query("SELECT pg_total_relation_size('llm_quota') AS bytes")
  const cost = Number(rows[0].bytes) / callers
  await assertAllTracked(store, callers)
  await pool.end()
  await server.stop()
  return cost
}

async function count (store: QuotaStore, callers: number): Promise<void> {
  for (let first = 0; first < callers; first += atOnce) {
    const most = Math.min(atOnce, callers - first)
    const decided = Array.from({ length: most }, (_, index) => {
      return store.acquire([demandOf(first + index)])
    })
    await Promise.all(decided)
  }
}

function demandOf (caller: number): Demand {
  return {
    counters: 'default',
    callerKey: createHash('sha256').update(`caller ${caller}`).digest('hex'),
    limit: 100,
    least: 1,
    most: 1,
    isEstimate: false,
    // So that no counter is swept while the others are counted.
    window: 3_600_000,
    start: null,
    end: null,
    unit: 'requests',
    reference: null
  }
}

async function assertAllTracked (store: QuotaStore, callers: number): Promise<void> {
  const state = await store.inspect?.('default')
  if (state?.trackedCallers !== callers) {
    throw new Error(`${state?.trackedCallers} of ${callers} callers have a counter`)
  }
}
