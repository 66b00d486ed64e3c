// The PostgreSQL store with the server's clock, with the least privileges, and with other clients than pg.
import { deepStrictEqual } from 'node:assert/strict'
import { drizzle } from 'drizzle-orm/node-postgres'
import fc from 'fast-check'
import postgres from 'postgres'
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { PostgresQuotaStore, type PostgresPool } from '../../lib/postgres.js'
import { quotaStoreContract, VirtualClock } from '../../lib/testing.js'
import { prismaClient } from '../support/prisma-client.js'
import { assertProperty } from '../support/property.js'
import { startPostgres } from '../support/postgres-server.js'

const { server, pool } = await startPostgres(t)
const walks = Number(process.env.RANDOM_WALKS ?? 40)
const stepsPerWalk = 100

// A test moves the server's time forward by moving all counters back. Real time that passes is less than the tens of seconds that are compared.
const unit = 10_000
const gap = fc.oneof({ weight: 9, arbitrary: fc.constantFrom(0, 0, 0, 1, 3) }, { weight: 2, arbitrary: fc.constantFrom(5, 6, 7, 11, 12, 13, 18) })
const kind = fc.constantFrom('acquire', 'acquire', 'acquire', 'acquire', 'peek', 'forget')
const step = fc.record({ kind, gap, caller: fc.constantFrom(...'abcdef'), limit: fc.integer({ min: 1, max: 4 }) })
const walk = fc.record({ maxTrackedCallers: fc.integer({ min: 1, max: 5 }), steps: fc.array(step, { minLength: stepsPerWalk, maxLength: stepsPerWalk, size: 'max' }) })

function rounded<Result extends { windowRemaining: number }> (result: Result | null) {
  return result === null ? null : { ...result, windowRemaining: Math.ceil(result.windowRemaining / unit) }
}

t.test(`the store with the server's clock has the same results as the memory store, in ${walks * stepsPerWalk} random steps`, async (t) => {
  let sweeps = 0
  await assertProperty(fc.asyncProperty(walk, async ({ maxTrackedCallers, steps }) => {
    const store = new PostgresQuotaStore({ pool, maxTrackedCallers, rememberRefusals: false })
    const clock = new VirtualClock()
    const memory = new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers })
    await store.clearCounters()
    for (const { kind, gap, caller, limit } of steps) {
      if (gap > 0) {
        clock.advance(gap * unit)
        await pool.query(`UPDATE llm_quota SET window_start = window_start - ${gap * unit}, last_seen = last_seen - ${gap * unit}`)
        await pool.query(`UPDATE llm_quota_state SET swept_at = swept_at - ${gap * unit}`)
      }
      if (kind === 'acquire') deepStrictEqual(rounded(await store.acquire(caller, limit)), rounded(memory.acquire(caller, limit)))
      if (kind === 'peek') deepStrictEqual(rounded(await store.peek(caller)), rounded(memory.peek(caller)))
      if (kind === 'forget') deepStrictEqual(await store.forget(caller), memory.forget(caller))
      deepStrictEqual(await store.inspect(), memory.inspect())
    }
    sweeps += memory.inspect().sweeps
  }), { numRuns: walks })
  t.ok(sweeps > walks, `${sweeps} sweeps`)
})

t.test('the documented privileges are enough', async (t) => {
  await pool.query(`CREATE ROLE service LOGIN; GRANT USAGE ON SCHEMA public TO service;
    GRANT SELECT, INSERT, UPDATE, DELETE ON llm_quota, llm_quota_state, llm_quota_place TO service`)
  const own = server.pool({ user: 'service', connectionString: server.url.replace('postgres@', 'service@') })
  const store = new PostgresQuotaStore({ pool: own })
  await store.clearCounters()
  await store.acquire('alice', 5)
  await (await store.enter('alice', 5)).leave?.()
  t.match(await store.peek('alice'), { count: 1 })
  await store.forget('alice')
  t.match(await store.inspect(), { trackedCallers: 0 })
  await own.end()
})

t.test('each client of docs/postgres.md passes each check of quotaStoreContract', async (t) => {
  const [sql, db, prisma] = [postgres(server.url), drizzle(server.url), prismaClient(server.url)]
  t.teardown(() => Promise.all([sql.end(), db.$client.end(), prisma.$disconnect()]))
  const pools: Record<string, PostgresPool> = {
    'postgres.js': { query: async (text, values) => ({ rows: await sql.unsafe(text, values as (string | null)[]) }) },
    Drizzle: db.$client,
    Prisma: { query: async (text, values) => ({ rows: await prisma.$queryRawUnsafe(text, ...values) as unknown[] }) }
  }
  for (const [client, pool] of Object.entries(pools)) {
    const checks = quotaStoreContract(async (options) => {
      const store = new PostgresQuotaStore({ pool, rememberRefusals: false, ...options })
      await store.clearCounters()
      return store
    })
    for (const { name, run } of checks) await t.resolves(run(), `${client}: ${name}`)
  }
})
