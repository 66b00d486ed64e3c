// Prints what a million callers cost on one PostgreSQL server, compared with ten thousand; how long the statements of a sweep hold the quota's
// lock, measured by the server; and how large the tables become under load. The store has a virtual clock. The argument is the time of the load,
// in seconds.
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { PostgresQuotaStore, postgresSchema } from 'fastify-llm-quota/postgres'
import { PostgresServer } from '../../test/support/postgres-server.js'
import { serverCpu } from './server-cpu.js'

const atOnce = 128
const limit = 1_000_000_000
const server = await PostgresServer.start()
await server.restart('shared_buffers=1GB', 'shared_preload_libraries=pg_stat_statements')
const pool = server.pool()
await pool.query('CREATE EXTENSION pg_stat_statements')

console.log('| callers | step | server CPU per decision, µs | statements | their mean time, ms | the longest, ms | decisions |\n|---:|---|---:|---:|---:|---:|---:|')
for (const callers of [10_000, 1_000_000]) await measure(callers)
await load(Number(process.argv[2] ?? 120))
await pool.end()
await server.stop()

async function measure (callers: number): Promise<void> {
  await renew()
  let now = 1_000_000
  const store = new PostgresQuotaStore({ pool, maxTrackedCallers: callers, rememberRefusals: false, clock: () => now })
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
    await resetStatistics()
    const started = performance.now()
    const { overflow } = await store.acquire(keyOf(-1), limit)
    const time = (performance.now() - started).toFixed(0)
    console.log(`| ${callers} | a new caller at the cap, ${name}: ${time} ms, overflow ${overflow} | | ${await statistics()} | 1 |`)
  }

  async function step (name: string, keys: readonly string[]): Promise<void> {
    await resetStatistics()
    const before = serverCpu(server.pid)
    await decide(store, keys)
    const cpu = ((serverCpu(server.pid) - before) / keys.length).toFixed(1)
    console.log(`| ${callers} | ${name} | ${cpu} | ${await statistics()} | ${keys.length} |`)
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

async function resetStatistics (): Promise<void> {
  await pool.query('SELECT pg_stat_statements_reset()')
}

/** Returns the number of statements for decisions, and their mean and longest time on the server, in milliseconds: three cells of a table. */
async function statistics (): Promise<string> {
  const { rows: [row] } = await pool.query("SELECT calls, mean_exec_time, max_exec_time FROM pg_stat_statements WHERE query LIKE '%llm_quota_acquire%'")
  return `${row.calls} | ${row.mean_exec_time.toFixed(1)} | ${row.max_exec_time.toFixed(1)}`
}

async function renew (): Promise<void> {
  await pool.query(`DROP TABLE IF EXISTS llm_quota, llm_quota_state, llm_quota_place CASCADE; ${postgresSchema()}`)
}

function keyOf (number: number): string {
  return String(callerKey(localAuthentication(`caller ${number}`)))
}
