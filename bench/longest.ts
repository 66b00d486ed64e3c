// How long the longest script of Redis and the longest statement of PostgreSQL take: 128 requests
// with several quotas arrive at once, each with another limit, when callers have a cap and all
// counters are to be deleted. Half of the callers are new.
import { createHash } from 'node:crypto'
import type { Demand, QuotaStore } from 'fastify-llm-quota'
import { PostgresQuotaStore, postgresSchema } from 'fastify-llm-quota/postgres'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { PostgresServer } from '../test/support/postgres-server.js'
import { RedisServer } from '../test/support/redis-server.js'
import { median, type Row } from './table.js'

const callers = 10_000
const requests = 128
const quotas = 10
const batches = 20
const minute = 60_000
/** How long after its window opened a counter is deleted, and a second more. */
const deadAfter = 121_000

/** A clock that is set forward so that counters are to be deleted. */
class Clock {
  ahead = 0
  readonly read = (): number => performance.now() + this.ahead
}

export async function measureLongest (): Promise<Row[]> {
  return [await onRedis(), await onPostgres()]
}

async function onRedis (): Promise<Row> {
  const server = await RedisServer.start(
    '--slowlog-log-slower-than',
    '0',
    '--slowlog-max-len',
    '1000'
  )
  const client = server.client()
  const clock = new Clock()
  const store = new RedisQuotaStore({ client, maxTrackedCallers: callers, clock: clock.read })
  const row = await measure('script of Redis', store, clock, async () => {
    const slow: unknown = await client.slowlog('GET', 1_000)
    await client.slowlog('RESET')
    if (!Array.isArray(slow)) throw new TypeError('no list of the slowest commands')
    return slow
      .filter(([, , , [command]]) => command === 'evalsha')
      .map(([, , microseconds]) => Number(microseconds) / 1_000)
  })
  client.disconnect()
  await server.stop()
  return row
}

async function onPostgres (): Promise<Row> {
  const server = await PostgresServer.start()
  const pool = server.pool()
  await pool.query(postgresSchema())
  // The pool lends a connection for each statement.
  const lentAt = new Map<object, number>()
  let durations: number[] = []
  pool.on('acquire', (client) => lentAt.set(client, performance.now()))
  pool.on('release', (_error, client) => {
    durations.push(performance.now() - (lentAt.get(client) ?? NaN))
  })
  const clock = new Clock()
  const store = new PostgresQuotaStore({ pool, maxTrackedCallers: callers, clock: clock.read })
  const title = 'statement of PostgreSQL, with its round trip'
  const row = await measure(title, store, clock, () => {
    const taken = durations
    durations = []
    return taken
  })
  await pool.end()
  await server.stop()
  return row
}

/** @param durations Returns how long the calls since the last time took, in milliseconds. */
async function measure (
  title: string,
  store: QuotaStore,
  clock: Clock,
  durations: () => number[] | Promise<number[]>
): Promise<Row> {
  for (let first = 0; first < callers; first += requests) {
    const asked = Array.from({ length: requests }, (_, index) => first + index)
    await ask(store, asked, 1_000)
  }
  await durations()
  // By their position in the batch. On a busy machine, a call that is interrupted takes longer, so
  // the least of all batches counts.
  const least: number[] = []
  for (let batch = 0; batch < batches; batch++) {
    clock.ahead += deadAfter
    const asked = Array.from({ length: requests }, (_, index) => {
      const isNew = index % 2 === 0
      return (isNew ? 2 * callers : 0) + batch * requests + index
    })
    await ask(store, asked, 2_000)
    for (const [position, duration] of (await durations()).entries()) {
      least[position] = Math.min(duration, least[position] ?? Infinity)
    }
  }
  const costs = { median: median(least), longest: Math.max(...least) }
  const row = { title, unit: 'ms', costs }
  console.error(row)
  return row
}

/** Sends a request of each caller, each with another limit. */
async function ask (store: QuotaStore, asked: readonly number[], limit: number): Promise<void> {
  await Promise.all(
    asked.map((caller, index) => {
      const names = Array.from({ length: quotas }, (_, number) => `quota ${number}`)
      return store.acquire(names.map((name) => demandOf(name, caller, limit + index)))
    })
  )
}

function demandOf (counters: string, caller: number, limit: number): Demand {
  return {
    counters,
    callerKey: createHash('sha256').update(`caller ${caller}`).digest('hex'),
    limit,
    least: 1,
    most: 1,
    isEstimate: true,
    window: minute,
    start: null,
    end: null,
    unit: 'tokens',
    reference: null
  }
}
