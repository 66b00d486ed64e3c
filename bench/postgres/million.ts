// Prints what a million callers cost on one PostgreSQL server, compared with ten thousand; how long the statements of a sweep hold the quota's
// lock; and how large the tables become under load. The store has a virtual clock. The argument is the time of the load, in seconds.
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { PostgresQuotaStore, postgresSchema } from 'fastify-llm-quota/postgres'
import type pg from 'pg'
import { PostgresServer } from '../../test/support/postgres-server.js'
import { serverCpu } from './server-cpu.js'

const atOnce = 128
const limit = 1_000_000_000
const server = await PostgresServer.start()
await server.restart('shared_buffers=1GB')
const pool = server.pool()

console.log('| callers | step | server CPU per decision, µs | longest statement, ms | decisions |\n|---:|---|---:|---:|---:|')
for (const callers of [10_000, 1_000_000]) await measure(callers)
await load(Number(process.argv[2] ?? 120))
await pool.end()
await server.stop()

async function measure (callers: number): Promise<void> {
  await renew()
  let now = 1_000_000
  let longest = 0
  const store = new PostgresQuotaStore({ pool: timed(pool, (time) => { longest = Math.max(longest, time) }), maxTrackedCallers: callers, rememberRefusals: false, clock: () => now })
  const keys = Array.from({ length: callers }, (_, number) => keyOf(number))
  await step('new callers until the cap is reached', keys)
  const known = Array.from({ length: 50_000 }, (_, number) => keys[(number * 7_919) % callers] ?? '')
  await pool.query('VACUUM ANALYZE llm_quota')
  await step('known callers', known)
  now += 60_000
  await newCaller('right after a sweep that removes none')
  await newCaller('later')
  now += 59_000
  await step('known callers, before all others are due for removal', known)
  now += 2_000
  await step('new callers while a sweep removes the others', Array.from({ length: 5_000 }, (_, number) => keyOf(callers + number)))
  console.log(`\n${JSON.stringify(await store.inspect())}\n`)

  /** Prints how long one new caller waits at the cap. */
  async function newCaller (name: string): Promise<void> {
    longest = 0
    const started = performance.now()
    const { overflow } = await store.acquire(keyOf(-1), limit)
    console.log(`| ${callers} | a new caller at the cap, ${name}: ${(performance.now() - started).toFixed(0)} ms, overflow ${overflow} | | ${longest.toFixed(1)} | 1 |`)
  }

  async function step (name: string, keys: readonly string[]): Promise<void> {
    longest = 0
    const before = serverCpu(server.pid)
    await decide(store, keys)
    console.log(`| ${callers} | ${name} | ${((serverCpu(server.pid) - before) / keys.length).toFixed(1)} | ${longest.toFixed(1)} | ${keys.length} |`)
  }
}

/** Decides as fast as the server does, for ten thousand callers, and prints the sizes of the tables. */
async function load (seconds: number): Promise<void> {
  await renew()
  const store = new PostgresQuotaStore({ pool })
  const keys = Array.from({ length: 10_000 }, (_, number) => keyOf(number))
  const end = performance.now() + seconds * 1_000
  console.log('\n| decisions | seconds | counters, MB | their index, MB | state, kB | updates that were HOT |\n|---:|---:|---:|---:|---:|---:|')
  let decisions = 0
  for (let report = 1; performance.now() < end;) {
    await decide(store, keys)
    decisions += keys.length
    if (performance.now() < end - seconds * 1_000 * (1 - report / 4)) continue
    report += 1
    const { rows: [sizes] } = await pool.query(`SELECT pg_relation_size('llm_quota') / 1e6 AS counters, pg_relation_size('llm_quota_pkey') / 1e6 AS index,
      pg_relation_size('llm_quota_state') / 1e3 AS state, n_tup_hot_upd::float8 / greatest(n_tup_upd, 1) AS hot FROM pg_stat_user_tables WHERE relname = 'llm_quota'`)
    console.log(`| ${decisions} | ${Math.round(seconds - (end - performance.now()) / 1_000)} | ${Number(sizes.counters).toFixed(1)} | ${Number(sizes.index).toFixed(1)} | ${Number(sizes.state).toFixed(0)} | ${(100 * sizes.hot).toFixed(1)} % |`)
  }
}

async function decide (store: PostgresQuotaStore, keys: readonly string[]): Promise<void> {
  await Promise.all(Array.from({ length: atOnce }, async (_, first) => {
    for (let index = first; index < keys.length; index += atOnce) await store.acquire(keys[index] ?? '', limit)
  }))
}

/** Returns the pool, and reports how long each statement takes, in milliseconds: longer than it holds any lock. */
function timed (pool: pg.Pool, report: (milliseconds: number) => void) {
  return {
    async query (text: string, values: unknown[]) {
      const started = performance.now()
      const result = await pool.query(text, values)
      report(performance.now() - started)
      return result
    }
  }
}

async function renew (): Promise<void> {
  await pool.query(`DROP TABLE IF EXISTS llm_quota, llm_quota_state, llm_quota_place CASCADE; ${postgresSchema()}`)
}

function keyOf (number: number): string {
  return String(callerKey(localAuthentication(`caller ${number}`)))
}
