// Prints how long the statements of a sweep hold the quota's lock on one PostgreSQL server with ten thousand and with a million callers. For the
// longest ones: the time on the server, the CPU time of the connection's process, and for how long that process was ready to run and the machine ran
// others. The store has a virtual clock.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { PostgresQuotaStore, postgresSchema, type PostgresPool } from 'fastify-llm-quota/postgres'
import { PostgresServer } from '../../test/support/postgres-server.js'
import { serverCpu } from './server-cpu.js'

const atOnce = 128
const limit = 1_000_000_000
const server = await PostgresServer.start()
await server.restart('shared_buffers=1GB', 'shared_preload_libraries=pg_stat_statements')
// One connection, so that its process has all of the CPU time.
const pool = server.pool({ max: 1, idleTimeoutMillis: 0 })
await pool.query('CREATE EXTENSION pg_stat_statements')
const { rows: [{ pid }] } = await pool.query('SELECT pg_backend_pid() AS pid')
let longest = { cpu: 0, wait: 0 }
const timed: PostgresPool = {
  async query (text, values) {
    const before = processTimes()
    const result = await pool.query(text, values)
    // Linux counts the time of a process when it sleeps again.
    await sleep(1)
    const after = processTimes()
    longest = { cpu: Math.max(longest.cpu, after.cpu - before.cpu), wait: Math.max(longest.wait, after.wait - before.wait) }
    return result
  }
}

console.log(`| callers | step | decisions | server CPU per decision, µs | statements | their mean time, ms | the longest time, ms | the most CPU, ms | the longest wait for a core, ms |
|---:|---|${'---:|'.repeat(7)}`)
for (const callers of [10_000, 1_000_000]) await measure(callers)
await pool.end()
await server.stop()

async function measure (callers: number): Promise<void> {
  await renew()
  let now = 1_000_000
  const store = new PostgresQuotaStore({ pool: timed, maxTrackedCallers: callers, rememberRefusals: false, clock: () => now })
  const keys = Array.from({ length: callers }, (_, number) => keyOf(number))
  await step('new callers until the cap is reached', keys)
  await pool.query('VACUUM ANALYZE llm_quota')
  now += 60_000
  await newCaller('right after a sweep that removes none')
  await newCaller('later')
  now += 61_000
  await step('new callers while a sweep removes the others', Array.from({ length: 5_000 }, (_, number) => keyOf(callers + number)))
  console.log(`\n${JSON.stringify(await store.inspect())}\n`)

  /** Prints how long one new caller waits at the cap. */
  async function newCaller (name: string): Promise<void> {
    await resetStatistics()
    const started = performance.now()
    const { overflow } = await store.acquire(keyOf(-1), limit)
    const time = (performance.now() - started).toFixed(0)
    console.log(`| ${callers} | a new caller at the cap, ${name}: ${time} ms, overflow ${overflow} | 1 | | ${await statistics()} |`)
  }

  async function step (name: string, keys: readonly string[]): Promise<void> {
    await resetStatistics()
    const before = serverCpu(server.pid)
    await decide(store, keys)
    const cpu = ((serverCpu(server.pid) - before) / keys.length).toFixed(1)
    console.log(`| ${callers} | ${name} | ${keys.length} | ${cpu} | ${await statistics()} |`)
  }
}

async function decide (store: PostgresQuotaStore, keys: readonly string[]): Promise<void> {
  await Promise.all(Array.from({ length: atOnce }, async (_, first) => {
    for (let index = first; index < keys.length; index += atOnce) await store.acquire(keys[index] ?? '', limit)
  }))
}

async function resetStatistics (): Promise<void> {
  await pool.query('SELECT pg_stat_statements_reset()')
  longest = { cpu: 0, wait: 0 }
}

/** Returns the number of statements for decisions and their times: five cells of a table. */
async function statistics (): Promise<string> {
  const { rows: [row] } = await pool.query("SELECT calls, mean_exec_time, max_exec_time FROM pg_stat_statements WHERE query LIKE '%llm_quota_acquire%'")
  return [row.calls, ...[row.mean_exec_time, row.max_exec_time, longest.cpu, longest.wait].map((time) => time.toFixed(1))].join(' | ')
}

/** Returns for how long the connection's process has run, and has been ready to run, in milliseconds. */
function processTimes (): { cpu: number, wait: number } {
  const [cpu = NaN, wait = NaN] = readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ').map((nanoseconds) => Number(nanoseconds) / 1e6)
  return { cpu, wait }
}

async function renew (): Promise<void> {
  await pool.query(`DROP TABLE IF EXISTS llm_quota, llm_quota_state, llm_quota_place CASCADE; ${postgresSchema()}`)
}

function keyOf (number: number): string {
  return String(callerKey(localAuthentication(`caller ${number}`)))
}
