// The PostgreSQL store on real servers that fail, with many clients at once: no limit is exceeded,
// and the store recovers.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { PostgresQuotaStore, postgresSchema } from '../../lib/postgres.js'
import { PostgresDriver } from '../../lib/store/postgres/postgres-driver.js'
import { SchemaFunctions } from '../../lib/store/postgres/functions.js'
import { required } from '../../lib/required.js'
import type { Acquisition, Demand } from '../../lib/store/store.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'
import { callOf, named, send } from '../support/driver-checks.js'
import { PostgresServer, startPostgres } from '../support/postgres-server.js'
import { freePort } from '../support/redis-server.js'
import { until } from '../support/until.js'

const clients = 64
const key = String(callerKey(localAuthentication('alice')))

const { server, pool } = await startPostgres(t)
t.beforeEach(async () => {
  await new PostgresQuotaStore({ pool }).clearCounters()
})

/** The stores of four instances of a service, each with a pool of its own. */
function instances (
  t: Test,
  server: PostgresServer,
  options: { connectionString?: string; maxTrackedCallers?: number; clock?: () => number } = {}
): PostgresQuotaStore[] {
  const { connectionString = server.url, ...others } = options
  return Array.from({ length: 4 }, () => {
    const pool = server.pool({ connectionString, max: 3 })
    t.teardown(() => pool.end())
    return new PostgresQuotaStore({ pool, rememberRejections: false, ...others })
  })
}

interface Storm {
  readonly requests: number
  /** What a client demands with each of its requests. */
  readonly demands: (client: number, request: number) => readonly Demand[]
  readonly admitted?: (
    store: PostgresQuotaStore,
    acquisitions: readonly (Acquisition | null)[]
  ) => unknown
}

/**
 * Sends requests from all clients at once. Returns what was counted for each caller or overflow
 * counter of each quota.
 */
async function storm (
  stores: readonly PostgresQuotaStore[],
  { requests, demands, admitted }: Storm
): Promise<{ counted: Map<string, number>; failed: number }> {
  const counted = new Map<string, number>()
  let failed = 0
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      const store = stores[client % stores.length]
      if (store === undefined) return
      for (let request = 0; request < requests; request++) {
        const demanded = demands(client, request)
        try {
          const acquisitions = await store.acquire(demanded)
          if (!acquisitions.every((acquisition) => acquisition?.admitted)) continue
          for (const [index, { counters, callerKey, most }] of demanded.entries()) {
            const counter = acquisitions[index]?.overflow === true ? 'overflow' : callerKey
            const name = `${counters} ${counter}`
            counted.set(name, (counted.get(name) ?? 0) + most)
          }
          await admitted?.(store, acquisitions)
        } catch {
          failed += 1
          await sleep(5)
        }
      }
    })
  )
  return { counted, failed }
}

const anyOf = (callers: number, limit: number) => (client: number, request: number) => [
  demand(`caller-${(client * 31 + request * 17) % callers}`, { limit })
]

/** Asks until the server decides. */
async function decided (
  store: PostgresQuotaStore | undefined,
  caller: string
): Promise<Acquisition> {
  const found: Acquisition[] = []
  await until('the server decides', async () => {
    try {
      found.push(await acquireOne(required(store, 'a store'), caller, { limit: 1_000 }))
    } catch {
      await sleep(25)
    }
    return found.length > 0
  })
  return required(found[0], 'a decision')
}

t.test(
  '64 clients of four instances get exactly the limit, on known and on new callers, and at the cap',
  async (t) => {
    const stores = instances(t, server, { maxTrackedCallers: 20 })
    for (const [round, limit, left] of [
      ['new callers', 20, 20],
      ['known callers', 35, 15]
    ] as const) {
      const { counted, failed } = await storm(stores, { requests: 25, demands: anyOf(30, limit) })
      t.equal(failed, 0)
      t.equal(counted.size, 21, `${round}: 20 callers and the overflow counter`)
      t.same(new Set(counted.values()), new Set([left]), round)
    }
    t.match(await stores[0]?.inspect('default'), { trackedCallers: 20 })
  }
)

t.test(
  'whatever races for the last place of a quota, each quota counts what was admitted',
  async (t) => {
    const stores = instances(t, server, { maxTrackedCallers: 8 })
    let concurrent = 0
    let most = 0
    const month = {
      counters: 'chat.tokens.month',
      window: 2_678_400_000,
      start: Date.now() - 1e9,
      end: Date.now() + 1e9
    }
    const { counted, failed } = await storm(stores, {
      requests: 20,
      demands: (client, request) =>
        [
          ...anyOf(12, 1e9)(client, request),
          demand(`caller-${(client + request) % 3}`, { ...month, limit: 1_000, least: 7, most: 7 }),
          demand('all', place(5))
        ].sort(() => (client % 3) - 1),
      async admitted (store, acquisitions) {
        most = Math.max(most, ++concurrent)
        await new Promise((resolve) => {
          setImmediate(resolve)
        })
        concurrent -= 1
        for (const acquisition of acquisitions) {
          if (acquisition?.windowRemaining === null && acquisition.end === undefined) {
            await store.settle(acquisition.receipt, { count: 1, held: 1 })
          }
        }
      }
    })
    t.equal(failed, 0)
    t.ok(most > 1 && most <= 5, `${most} were concurrent`)
    const { rows } = await pool.query(
      `SELECT counters || ' ' || trim(caller, '"') AS name, count::integer
      FROM llm_quota WHERE count > 0`
    )
    const places = counted.get('streams.concurrent all')
    counted.delete('streams.concurrent all')
    t.ok(Number(places) > 50, `${places} were admitted`)
    t.same(new Map(rows.map(({ name, count }) => [name, count])), counted)
    const left = await pool.query('SELECT * FROM llm_quota_places')
    t.same(left.rows, [], 'no place is left')
    t.ok(
      Math.max(
        ...['caller-0', 'caller-1', 'caller-2'].map(
          (caller) => counted.get(`chat.tokens.month ${caller}`) ?? 0
        )
      ) <= 1_000
    )
    const {
      rows: [statistics]
    } = await pool.query(
      'SELECT deadlocks::integer FROM pg_stat_database WHERE datname = current_database()'
    )
    t.same(statistics, { deadlocks: 0 })
  }
)

t.test('calls run one after the other, and what only reads does not wait for them', async (t) => {
  // While the other call waits, nothing may take long.
  await pool.query(postgresSchema({ table: 'llm_quota_other' }))
  const store = new PostgresQuotaStore({ pool, rememberRejections: false })
  const other = await pool.connect()
  t.teardown(() => {
    other.release()
  })
  const functions = new SchemaFunctions(
    { query: (text, values) => other.query(text, values) },
    'llm_quota',
    false
  )
  const driver = new PostgresDriver(functions, { cap: Infinity, hasJournal: false })
  await other.query('BEGIN')
  await send(driver, callOf({ time: null, renewed: [named('alice', 'other:1:0')] }))
  const asked = acquireOne(store, 'alice', place(1))
  await until('the call waits', async () => {
    const { rows } = await pool.query('SELECT FROM pg_locks WHERE NOT granted')
    return rows.length > 0
  })
  t.same(await store.list('streams.concurrent'), { callers: [], cursor: null })
  t.same(await store.inspect('streams.concurrent'), { trackedCallers: 0 })
  const beside = new PostgresQuotaStore({ pool, table: 'llm_quota_other' })
  t.match(await acquireOne(beside, 'alice', place(1)), { admitted: true, count: 1 })
  await other.query('COMMIT')
  t.match(await asked, { admitted: false, count: 1 })
})

t.test('beside an old snapshot, a decision reads nothing that others have left', async (t) => {
  const store = new PostgresQuotaStore({ pool, rememberRejections: false })
  const tokens = { counters: 'chat.tokens.day', limit: 1e9, least: 9, most: 9, isEstimate: true }
  const request = (caller: string) => [
    demand(caller, { limit: 1e9 }),
    demand(caller, tokens),
    demand(caller, place())
  ]
  const settleOne = async (caller: string): Promise<void> => {
    for (const acquisition of await store.acquire(request(caller))) {
      if (acquisition === null) continue
      const { granted, receipt } = acquisition
      await store.settle(receipt, { count: granted, held: granted })
    }
  }
  const settleAll = (name: string) =>
    Promise.all(Array.from({ length: 500 }, (_, caller) => settleOne(`${name} ${caller}`)))
  /** Returns how many pages a decision on one request reads. */
  const pagesOf = async (caller: string): Promise<number> => {
    let pages = NaN
    const query = async (text: string, values: unknown[]) => {
      if (!text.includes('_decide"')) return await pool.query(text, values)
      const { rows } = await pool.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values)
      const [plan] = rows[0]['QUERY PLAN']
      pages = plan.Plan['Shared Hit Blocks'] + plan.Plan['Shared Read Blocks']
      return { rows: [] }
    }
    const explained = new PostgresQuotaStore({ pool: { query } })
    const asked = Promise.resolve(explained.acquire(request(caller)))
    await t.rejects(asked, /no row with a column reply/)
    return pages
  }
  for (const name of ['one', 'another']) await settleAll(name)
  const other = await pool.connect()
  t.teardown(() => {
    other.release()
  })
  await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM llm_quota')
  await pagesOf('one 7')
  const before = await pagesOf('one 7')
  for (let rounds = 0; rounds < 10; rounds++) await settleAll('another')
  const after = await pagesOf('one 7')
  await other.query('ROLLBACK')
  t.ok(after < before + 10, `${after} pages after 5,000 requests, ${before} before`)
})

t.test(
  'no call waits for a lock for more than a second, and one that has not run is sent again',
  async (t) => {
    let sent = 0
    const query = async (text: string, values: unknown[]) => {
      if (text.includes('_decide"')) sent += 1
      return await pool.query(text, values)
    }
    const store = new PostgresQuotaStore({ pool: { query }, rememberRejections: false })
    const counted = await acquireOne(store, 'a')
    const held = await acquireOne(store, 'a', place())
    const other = await pool.connect()
    t.teardown(() => {
      other.release()
    })
    await other.query('BEGIN; LOCK TABLE llm_quota, llm_quota_places')
    const others: Record<string, () => Promise<unknown>> = {
      inspect: () => store.inspect('default'),
      list: () => store.list('default'),
      forget: () => store.forget('default', key),
      clearCounters: () => store.clearCounters()
    }
    for (const [name, call] of Object.entries(others)) {
      await t.rejects(call(), { code: '55P03' }, name)
    }
    sent = 0
    const asked = Promise.all([
      acquireOne(store, 'a'),
      store.settle(counted.receipt, { count: 1, held: 0 }),
      store.settle(held.receipt, { count: 1, held: 1 })
    ])
    await until('the call is sent again', () => sent > 1)
    await other.query('ROLLBACK')
    const [{ count }] = await asked
    t.equal(count, 1, 'it has run once, after what was given back')
    t.match(await store.peek(demand('a', place())), { count: 0 })
  }
)

t.test(
  'calls of all kinds do not wait for each other in a circle, even if the clock goes back',
  async (t) => {
    let setBack = 0
    let requests = 0
    const stores = instances(t, server, { clock: () => 1e9 - (setBack += 200) })
    const { failed } = await storm(stores, {
      requests: 20,
      demands: (client, request) => [
        ...anyOf(30, 1e9)(client, request),
        demand(`caller-${request % 7}`, {
          counters: 'chat.requests.hour',
          window: 3_600_000,
          limit: 1e9
        }),
        demand('all', place(1e9))
      ],
      async admitted (store, acquisitions) {
        await Promise.all(
          acquisitions.map(
            (acquisition) =>
              acquisition === null || store.settle(acquisition.receipt, { count: 1, held: 1 })
          )
        )
        requests += 1
        if (requests % 5 === 0) await store.forget('default', key)
        if (requests % 50 === 0) await store.clearCounters()
      }
    })
    t.equal(failed, 0)
    const {
      rows: [statistics]
    } = await pool.query(
      'SELECT deadlocks::integer FROM pg_stat_database WHERE datname = current_database()'
    )
    t.same(statistics, { deadlocks: 0 })
  }
)

t.test(
  'after a crash of the server, unlogged tables are empty and logged ones keep the counts',
  async (t) => {
    const { server, pool } = await startPostgres(t)
    await pool.query(postgresSchema({ table: 'logged', unlogged: false }))
    const stores = [
      new PostgresQuotaStore({ pool }),
      new PostgresQuotaStore({ pool, table: 'logged' })
    ] as const
    for (const store of stores) {
      for (let request = 0; request < 3; request++) await acquireOne(store, 'alice')
    }
    // Longer than the server takes to write what a transaction without synchronous commit has left.
    await pool.query('SELECT pg_switch_wal()')
    await server.kill()
    await server.start()
    t.equal((await decided(stores[0], 'alice')).count, 1)
    t.equal((await decided(stores[1], 'alice')).count, 4)
  }
)

for (const mode of ['session', 'transaction', 'statement']) {
  t.test(`the store works through PgBouncer in the mode ${mode}`, async (t) => {
    const port = await startPooler(t, mode)
    const stores = instances(t, server, {
      connectionString: `postgres://postgres@127.0.0.1:${port}/postgres`
    })
    await decided(stores[0], 'another')
    const { counted, failed } = await storm(stores, { requests: 20, demands: anyOf(20, 25) })
    t.equal(failed, 0)
    t.same([...counted.values()], Array(20).fill(25))
    const { receipt } = await acquireOne(required(stores[0], 'a store'), 'once', estimate(5))
    const less = { count: 3, held: 5 }
    const applied = stores.map((store) => store.settle(receipt, less, 'job'))
    t.same((await Promise.all(applied)).sort(), [false, false, false, true])
    t.match(await stores[1]?.peek(demand('once', estimate())), { count: 2, held: 0 })
  })
}

/** Starts PgBouncer before the server, for a test. Returns its port. */
async function startPooler (t: Test, mode: string): Promise<number> {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'quota-pooler-'))
  chmodSync(folder, 0o755)
  writeFileSync(join(folder, 'users.txt'), '"postgres" ""\n')
  writeFileSync(
    join(folder, 'pooler.ini'),
    `[databases]
postgres = host=127.0.0.1 port=${server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${join(folder, 'users.txt')}
pool_mode = ${mode}
default_pool_size = 12
server_reset_query =
`
  )
  const asUser = process.getuid?.() === 0 ? ['-u', 'postgres'] : []
  const pooler = spawn('pgbouncer', [...asUser, join(folder, 'pooler.ini')], { stdio: 'ignore' })
  const exited = once(pooler, 'exit')
  t.teardown(async () => {
    pooler.kill('SIGKILL')
    await exited.catch(() => {})
    rmSync(folder, { recursive: true })
  })
  try {
    await once(pooler, 'spawn')
  } catch (error) {
    throw new Error("PgBouncer is not installed; install Debian's pgbouncer", { cause: error })
  }
  return port
}
