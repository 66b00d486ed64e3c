// Prints the server CPU per decision for callers in a table of ten thousand and in one of a million, 128 at once, in turns with rate-limiter-flexible.
// The control is the same measurement again.
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { PostgresQuotaStore, postgresSchema } from 'fastify-llm-quota/postgres'
import { RateLimiterPostgres } from 'rate-limiter-flexible'
import { PostgresServer } from '../../test/support/postgres-server.js'
import { Random } from '../../test/support/random.js'
import { serverCpu } from './server-cpu.js'

interface Measurement { readonly name: string, readonly callers: readonly string[], readonly decisions: number, readonly cpu: number[], decide (caller: string): unknown }

const sizes = [10_000, 1_000_000]
const rounds = 9
const atOnce = 128
const limit = 1_000_000_000
const random = new Random(1)
const server = await PostgresServer.start()
await server.restart('shared_buffers=1GB', 'autovacuum=off')
const pool = server.pool({ max: 4, idleTimeoutMillis: 0 })
const otherPool = server.pool({ max: 10, idleTimeoutMillis: 0, options: '-c synchronous_commit=off' })
const measurements: Measurement[] = []
for (const size of sizes) await prepare(size)
await pool.query('VACUUM ANALYZE')
for (let round = 0; round <= rounds; round++) {
  for (const measurement of measurements) {
    const cpu = await measure(measurement)
    if (round > 0) measurement.cpu.push(cpu)
  }
}
console.log('| callers in the table | limiter | median server CPU per decision, µs | least | most |\n|---:|---|---:|---:|---:|')
for (const { name, cpu } of measurements) {
  cpu.sort((one, other) => one - other)
  console.log(`| ${name} | ${[cpu[rounds >> 1], cpu[0], cpu.at(-1)].map((each) => each?.toFixed(1)).join(' | ')} |`)
}
await pool.end()
await otherPool.end()
await server.stop()

async function prepare (size: number): Promise<void> {
  const callers = Array.from({ length: size }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`))))
  const [table, tableName] = [`quota_${size}`, `other_${size}`]
  await pool.query(`${postgresSchema({ table })}; CREATE UNLOGGED TABLE ${tableName} (key varchar(255) PRIMARY KEY, points integer NOT NULL DEFAULT 0, expire bigint)`)
  await pool.query(`INSERT INTO ${table} SELECT 1, 0, 0, true, 'default', caller FROM unnest($1::text[]) AS caller`, [callers])
  await pool.query(`INSERT INTO ${tableName} SELECT 'rlflx:' || caller, 1, 0 FROM unnest($1::text[]) AS caller`, [callers])
  const store = new PostgresQuotaStore({ pool, table, maxTrackedCallers: size, rememberRefusals: false, clock: () => 0 })
  const other = new RateLimiterPostgres({ storeClient: otherPool, tableName, tableCreated: true, points: limit, duration: 3_600, clearExpiredByTimeout: false })
  const decide = (caller: string) => store.acquire(caller, limit)
  measurements.push(
    { name: `${size} | this store`, callers, decisions: 25_600, cpu: [], decide },
    { name: `${size} | this store, control`, callers, decisions: 25_600, cpu: [], decide },
    { name: `${size} | this store, the same ${atOnce} callers`, callers: callers.slice(0, atOnce), decisions: 25_600, cpu: [], decide },
    { name: `${size} | \`RateLimiterPostgres\``, callers, decisions: 6_400, cpu: [], decide: (caller) => other.consume(caller) }
  )
}

async function measure ({ callers, decisions, decide }: Measurement): Promise<number> {
  const before = serverCpu(server.pid)
  await Promise.all(Array.from({ length: atOnce }, async (_, first) => {
    for (let decision = first; decision < decisions; decision += atOnce) await decide(random.pick(callers))
  }))
  return (serverCpu(server.pid) - before) / decisions
}
