// The PostgreSQL store on real servers that fail, with many clients at once: no limit is exceeded,
// and the store recovers.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { PoolClient } from 'pg'
import { PostgresQuotaStore, postgresSchema, type PostgresPool } from '../../lib/postgres.js'
import { PostgresDriver } from '../../lib/store/postgres/postgres-driver.js'
import { functionsOf } from '../../lib/store/postgres/schema.js'
import type { Call } from '../../lib/store/shared/driver.js'
import type { Acquisition, Demand } from '../../lib/store/store.js'
import { PostgresServer, startPostgres } from '../support/postgres-server.js'
import { freePort } from '../support/redis-server.js'
import { acquireOne, demand, place } from '../support/told-store.js'

const clients = 64

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
  demand(`caller ${(client * 31 + request * 17) % callers}`, { limit })
]

/** Asks until the server decides. */
async function decided (
  store: PostgresQuotaStore | undefined,
  caller: string
): Promise<Acquisition> {
  if (store === undefined) throw new Error('there is no such store')
  for (let attempt = 0; attempt < 400; attempt++) {
    try {
      return await acquireOne(store, caller, { limit: 1_000 })
    } catch {
      await sleep(25)
    }
  }
  throw new Error('the server does not decide')
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
    const month = { counters: 'chat.tokens.month', window: 2_678_400_000, end: Date.now() + 1e9 }
    const { counted, failed } = await storm(stores, {
      requests: 20,
      demands: (client, request) =>
        [
          ...anyOf(12, 1e9)(client, request),
          demand(`caller ${(client + request) % 3}`, { ...month, limit: 1_000, least: 7, most: 7 }),
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
            await store.settle(acquisition, 0, null)
          }
        }
      }
    })
    t.equal(failed, 0)
    t.ok(most > 1 && most <= 5, `${most} were in flight at once`)
    const { rows } = await pool.query(
      `SELECT counters || ' ' || CASE kind WHEN 'overflow' THEN kind ELSE caller END AS name,
        count::integer
      FROM llm_quota WHERE count > 0`
    )
    const places = counted.get('streams.concurrent all')
    counted.delete('streams.concurrent all')
    t.ok(Number(places) > 50, `${places} were admitted`)
    t.same(new Map(rows.map(({ name, count }) => [name, count])), counted, 'and no place is left')
    t.ok(
      Math.max(
        ...['caller 0', 'caller 1', 'caller 2'].map(
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

t.test('a statement waits for the locks of another one only if it must', async (t) => {
  const store = new PostgresQuotaStore({ pool, rememberRejections: false })
  await acquireOne(store, 'a')
  const other = await pool.connect()
  t.teardown(() => {
    other.release()
  })
  await pool.query('UPDATE llm_quota_tracking SET swept_at = 0')
  await other.query('BEGIN; SELECT FROM llm_quota_tracking FOR UPDATE')
  t.match(await acquireOne(store, 'a'), { count: 2 }, 'a known caller does not wait for the state')
  t.match(
    await acquireOne(new PostgresQuotaStore({ pool }), 'a'),
    { count: 3 },
    'even if a sweep is due'
  )
  await other.query('ROLLBACK')
  await pool.query(
    `UPDATE llm_quota SET last_seen = 0 WHERE caller = 'a';
    UPDATE llm_quota_tracking SET swept_at = 0`
  )
  await other.query("BEGIN; SELECT FROM llm_quota WHERE caller = 'a' FOR UPDATE")
  t.match(
    await acquireOne(store, 'b'),
    { count: 1 },
    'a sweep does not wait for a counter that is in use'
  )
  await other.query('ROLLBACK')
  t.match(await store.inspect('default'), { trackedCallers: 2, sweeps: 1 })
  const otherDriver = new PostgresDriver(functionsOf(clientOf(other), 'llm_quota'), 10)
  const callOf = (number: number, more: Partial<Call>): Call => ({
    time: null,
    lease: { process: 'other', number, generation: 1, isComplete: true },
    holdings: [],
    settlements: [],
    requests: [],
    ...more
  })
  const streams = 'streams.concurrent'
  await other.query('BEGIN')
  await otherDriver.decide(
    callOf(1, { holdings: [{ counters: streams, callerKey: 'a', held: 1 }] })
  )
  const asked = acquireOne(store, 'a', place(1))
  while ((await pool.query('SELECT FROM pg_locks WHERE NOT granted')).rows.length === 0) {
    await sleep(5)
  }
  await other.query('COMMIT')
  t.match(
    await asked,
    { admitted: false, count: 1 },
    'a place is not taken while another process takes one for the same caller'
  )
  await other.query('BEGIN')
  await otherDriver.decide(callOf(2, {}))
  t.match(
    await acquireOne(store, 'caller 7', place(1)),
    { admitted: true, count: 1 },
    'a decision does not wait for a renewal'
  )
  await other.query('ROLLBACK')
})

t.test('a counter that another call has just inserted and uses is not overwritten', async (t) => {
  const store = new PostgresQuotaStore({ pool, rememberRejections: false })
  await acquireOne(store, 'a')
  const tracking = await pool.connect()
  const counter = await pool.connect()
  t.teardown(() => {
    tracking.release()
    counter.release()
  })
  await tracking.query('BEGIN; SELECT FROM llm_quota_tracking FOR UPDATE')
  const asked = acquireOne(store, 'b', { limit: 10 })
  while ((await pool.query('SELECT FROM pg_locks WHERE NOT granted')).rows.length === 0) {
    await sleep(5)
  }
  await pool.query(`INSERT INTO llm_quota
    SELECT counters, 'b', kind, 5, 0, ends, is_zoned, 7, last_seen
    FROM llm_quota WHERE caller = 'a'`)
  await counter.query("BEGIN; SELECT FROM llm_quota WHERE caller = 'b' FOR UPDATE")
  await tracking.query('UPDATE llm_quota_tracking SET tracked = 2; COMMIT')
  while ((await pool.query('SELECT FROM pg_locks WHERE NOT granted')).rows.length === 0) {
    await sleep(5)
  }
  await counter.query('COMMIT')
  t.match(await asked, { admitted: true, count: 6 })
  t.same(await store.inspect('default'), { trackedCallers: 2, sweeps: 0 })
})

/** A connection as a pool without named statements. */
function clientOf (client: PoolClient): PostgresPool {
  return { query: (text, values) => client.query(text, values) }
}

t.test(
  'no call waits for locked tables for more than seconds, and what failed is not counted',
  async (t) => {
    const store = new PostgresQuotaStore({ pool })
    const counted = await acquireOne(store, 'a')
    const held = await acquireOne(store, 'a', place())
    const other = await pool.connect()
    t.teardown(() => {
      other.release()
    })
    await other.query('BEGIN; LOCK TABLE llm_quota, llm_quota_clock')
    const calls: Record<string, () => unknown> = {
      acquire: () => acquireOne(store, 'a'),
      peek: () => store.peek(demand('a')),
      inspect: () => store.inspect('default'),
      list: () => store.list('default'),
      forget: () => store.forget('a', 'default'),
      clearCounters: () => new PostgresQuotaStore({ pool }).clearCounters(),
      settle: () => store.settle(counted, 0, null),
      'settle of a place': () => store.settle(held, 0, null)
    }
    await Promise.all(
      Object.entries(calls).map(([name, call]) =>
        t.rejects(async () => call(), { code: '55P03' }, name)
      )
    )
    await other.query('ROLLBACK')
    t.match(await acquireOne(store, 'a'), { count: 2 })
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
        demand(`caller ${request % 7}`, {
          counters: 'chat.requests.hour',
          window: 3_600_000,
          limit: 1e9
        }),
        demand('all', place(1e9))
      ],
      async admitted (store, acquisitions) {
        await Promise.all(
          acquisitions.map(
            (acquisition) => acquisition === null || store.settle(acquisition, 0, null)
          )
        )
        requests += 1
        if (requests % 5 === 0) await store.forget('caller 1', 'default')
        if (requests % 50 === 0) await store.clearCounters()
      }
    })
    t.equal(failed, 0)
    const { rows } = await pool.query(`SELECT tracked = (
      SELECT count(*) FROM llm_quota AS own
      WHERE own.counters = tracking.counters AND kind = 'caller'
    ) AS exact
    FROM llm_quota_tracking AS tracking`)
    t.ok(
      rows.every(({ exact }) => exact === true),
      'and the number of tracked callers is that of their counters'
    )
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

t.test('the store works through a pooler of transactions', async (t) => {
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
pool_mode = transaction
default_pool_size = 3
server_reset_query =
`
  )
  const asUser = process.getuid?.() === 0 ? ['-u', 'postgres'] : []
  const pooler = spawn('pgbouncer', [...asUser, join(folder, 'pooler.ini')], { stdio: 'ignore' })
  t.teardown(async () => {
    const exited = once(pooler, 'exit')
    pooler.kill('SIGKILL')
    await exited
    rmSync(folder, { recursive: true })
  })
  const stores = instances(t, server, {
    connectionString: `postgres://postgres@127.0.0.1:${port}/postgres`
  })
  await decided(stores[0], 'another')
  const { counted, failed } = await storm(stores, { requests: 20, demands: anyOf(20, 25) })
  t.equal(failed, 0)
  t.same([...counted.values()], Array(20).fill(25))
  const {
    rows: [shown]
  } = await pool.query('SHOW synchronous_commit')
  t.same(shown, { synchronous_commit: 'on' })
})
