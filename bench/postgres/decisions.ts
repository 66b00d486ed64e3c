// Prints the server CPU per decision and the decisions per second, for callers that each wait for their decision before the next one, in turns
// with rate-limiter-flexible on a table of the same kind. The control is the same measurement again.
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { PostgresQuotaStore, postgresSchema } from 'fastify-llm-quota/postgres'
import { RateLimiterPostgres } from 'rate-limiter-flexible'
import { PostgresServer } from '../../test/support/postgres-server.js'
import { serverCpu } from './server-cpu.js'

type Decide = (caller: string) => unknown

const rounds = 3
const decisionsPerRound = 12_000
const limit = 1_000_000_000
const server = await PostgresServer.start()
await server.restart('fsync=on', 'full_page_writes=on')

console.log('| tables | callers | at once | limiter | server CPU per decision, µs | of the other one | decisions per second |\n|---|---:|---:|---|---:|---:|---:|')
for (const unlogged of [true, false]) {
  for (const [callers, atOnce] of [[5_000, 64], [1, 64], [5_000, 8], [5_000, 1]] as const) await compare(unlogged, callers, atOnce)
}
await server.stop()

async function compare (unlogged: boolean, callers: number, atOnce: number): Promise<void> {
  const keys = Array.from({ length: callers }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`))))
  // A logged table of this store never waits for the disk, so neither does the other one.
  const pools = [server.pool({ max: 10 }), server.pool({ max: 10, options: '-c synchronous_commit=off' })] as const
  const decisions = unlogged || atOnce > 1 ? decisionsPerRound : decisionsPerRound / 4
  await pools[0].query(`DROP TABLE IF EXISTS llm_quota, llm_quota_state, llm_quota_place, other CASCADE; ${postgresSchema({ unlogged })};
    CREATE ${unlogged ? 'UNLOGGED' : ''} TABLE other (key varchar(255) PRIMARY KEY, points integer NOT NULL DEFAULT 0, expire bigint)`)
  const store = new PostgresQuotaStore({ pool: pools[0] })
  const named = new PostgresQuotaStore({ pool: { query: (text, values) => pools[0].query({ name: text.slice(0, 63), text, values }) } })
  const other = new RateLimiterPostgres({ storeClient: pools[1], tableName: 'other', tableCreated: true, points: limit, duration: 60, clearExpiredByTimeout: false })
  const limiters: Record<string, Decide> = {
    'rate-limiter-flexible': (caller) => other.consume(caller),
    'this store': (caller) => store.acquire(caller, limit),
    'this store, control': (caller) => store.acquire(caller, limit),
    'this store, named statements': (caller) => named.acquire(caller, limit)
  }
  const cpu: Record<string, number[]> = {}
  const perSecond: Record<string, number[]> = {}
  for (let round = 0; round <= rounds; round++) {
    for (const [name, decide] of Object.entries(limiters)) {
      const before = serverCpu(server.pid)
      const started = performance.now()
      await Promise.all(Array.from({ length: atOnce }, async (_, caller) => {
        for (let decision = caller; decision < decisions; decision += atOnce) await decide(keys[(decision * 7_919) % callers] ?? '')
      }))
      const seconds = (performance.now() - started) / 1000
      if (round === 0) continue
      ;(cpu[name] ??= []).push((serverCpu(server.pid) - before) / decisions)
      ;(perSecond[name] ??= []).push(decisions / seconds)
    }
  }
  const reference = median(cpu['rate-limiter-flexible'])
  for (const name of Object.keys(limiters)) {
    const ratio = (median(cpu[name]) / reference).toFixed(2)
    console.log(`| ${unlogged ? 'unlogged' : 'logged'} | ${callers} | ${atOnce} | ${name} | ${median(cpu[name]).toFixed(1)} | ${ratio} | ${Math.round(median(perSecond[name]))} |`)
  }
  for (const pool of pools) await pool.end()
}

function median (values: number[] = []): number {
  return values.sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? NaN
}
