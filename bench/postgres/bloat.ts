// Prints, every minute, how large the tables of the PostgreSQL store are while callers come and go: 40,000 at a time, 300 others each second. Each
// request takes a place, is decided, and gives the place back. The arguments are the minutes, and the requests per second; without the latter, as
// many as the server decides.
import { setTimeout as sleep } from 'node:timers/promises'
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { PostgresQuotaStore, postgresSchema } from 'fastify-llm-quota/postgres'
import { PostgresServer } from '../../test/support/postgres-server.js'
import { Random } from '../../test/support/random.js'

const [minutes = 60, perSecond = Infinity] = process.argv.slice(2).map(Number)
const atOnce = 64
const callersAtATime = 40_000
const newCallersPerSecond = 300
const limit = 1_000_000_000
const random = new Random(1)
const tables = ['llm_quota', 'llm_quota_state', 'llm_quota_place']

const server = await PostgresServer.start()
await server.restart('fsync=on', 'full_page_writes=on')
const pool = server.pool({ max: 4, connectionTimeoutMillis: 0 })
await pool.query(postgresSchema())
const store = new PostgresQuotaStore({ pool, maxTrackedCallers: 100_000, rememberRefusals: false })
const started = performance.now()
const seconds = () => (performance.now() - started) / 1000
let requests = 0
let overflown = 0
let failed = 0

console.log(`| minute | requests per second | callers | in overflow | failed | ${tables.map((name) => `${name}, MB | index, MB | dead rows | HOT`).join(' | ')} | autovacuums |`)
console.log(`|${'---:|'.repeat(5 + 4 * tables.length + 1)}`)
const workers = Array.from({ length: atOnce }, work)
for (let minute = 1; minute <= minutes; minute++) {
  const before = requests
  await sleep(minute * 60_000 - seconds() * 1000)
  const { rows } = await pool.query(`SELECT pg_table_size(relid) / 1e6 AS size, pg_indexes_size(relid) / 1e6 AS index, n_dead_tup AS dead,
    100.0 * n_tup_hot_upd / greatest(n_tup_upd, 1) AS hot, autovacuum_count AS vacuums FROM pg_stat_user_tables ORDER BY array_position($1, relname::text)`, [tables])
  const cells = rows.map(({ size, index, dead, hot }) => `${Number(size).toFixed(1)} | ${Number(index).toFixed(1)} | ${dead} | ${Number(hot).toFixed(1)} %`)
  const { trackedCallers } = await store.inspect().catch(() => ({ trackedCallers: NaN }))
  console.log(`| ${minute} | ${Math.round((requests - before) / 60)} | ${trackedCallers} | ${overflown} | ${failed} | ${cells.join(' | ')} | ${rows.map(({ vacuums }) => vacuums).join(', ')} |`)
}
await Promise.all(workers)
await pool.end()
await server.stop()

async function work (): Promise<void> {
  while (seconds() < minutes * 60) {
    if (requests > seconds() * perSecond) {
      await sleep(20)
      continue
    }
    requests += 1
    const caller = seconds() * newCallersPerSecond + random.integer(0, callersAtATime - 1)
    const key = String(callerKey(localAuthentication(`caller ${Math.floor(caller)}`)))
    try {
      const { leave } = await store.enter(key, 10)
      const { overflow } = await store.acquire(key, limit)
      if (overflow) overflown += 1
      await leave?.()
    } catch {
      // The server did not answer within five seconds, because the machine ran other programs.
      failed += 1
      await sleep(100)
    }
  }
}
