// The PostgreSQL store on real servers that fail, with many clients at once: no limit is exceeded, and the store recovers.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { callerKey, localAuthentication, type Acquisition } from '../../lib/index.js'
import { PostgresQuotaStore, postgresSchema } from '../../lib/postgres.js'
import { PostgresServer, startPostgres } from '../support/postgres-server.js'
import { freePort } from '../support/redis-server.js'

const clients = 64
const key = (name: string | number) => String(callerKey(localAuthentication(`caller ${name}`)))

/** The stores of four instances of a service, each with a pool of its own. */
function instances (t: Test, server: PostgresServer, options: { connectionString?: string, maxTrackedCallers?: number, clock?: () => number } = {}): PostgresQuotaStore[] {
  const { connectionString = server.url, ...others } = options
  return Array.from({ length: 4 }, () => {
    const pool = server.pool({ connectionString, max: 3 })
    t.teardown(() => pool.end())
    return new PostgresQuotaStore({ pool, rememberRefusals: false, ...others })
  })
}

/** Sends requests from all clients at once, until each has sent some, and returns the admitted ones by caller. */
async function storm (stores: readonly PostgresQuotaStore[], requests: number, callers: number, limit: number): Promise<{ admitted: Map<string, number>, failed: number }> {
  const admitted = new Map<string, number>()
  let failed = 0
  await Promise.all(Array.from({ length: clients }, async (_, client) => {
    for (let request = 0; request < requests; request++) {
      const caller = key((client * 31 + request * 17) % callers)
      try {
        const acquisition = await stores[client % stores.length]?.acquire(caller, limit)
        const name = acquisition?.overflow === true ? 'overflow' : caller
        if (acquisition?.admitted === true) admitted.set(name, (admitted.get(name) ?? 0) + 1)
      } catch {
        failed += 1
        await sleep(5)
      }
    }
  }))
  return { admitted, failed }
}

/** Asks until the server decides. */
async function decided (store: PostgresQuotaStore, caller: string): Promise<Acquisition> {
  for (let attempt = 0; attempt < 400; attempt++) {
    try {
      return await store.acquire(caller, 1_000)
    } catch {
      await sleep(25)
    }
  }
  throw new Error('the server does not decide')
}

t.test('64 clients of four instances get exactly the limit, on known and on new callers, and at the cap', async (t) => {
  const { server, pool } = await startPostgres(t)
  const stores = instances(t, server, { maxTrackedCallers: 20 })
  for (const round of ['new callers', 'known callers']) {
    const { admitted, failed } = await storm(stores, 40, 30, round === 'new callers' ? 20 : 35)
    t.equal(failed, 0)
    t.equal(admitted.size, 21, `${round}: 20 callers and the overflow counter`)
    t.same(new Set(admitted.values()), new Set([round === 'new callers' ? 20 : 15]), round)
  }
  t.match(await stores[0]?.inspect(), { trackedCallers: 20 })
  const { rows: [statistics] } = await pool.query('SELECT deadlocks::integer FROM pg_stat_database WHERE datname = current_database()')
  t.same(statistics, { deadlocks: 0 })
})

t.test('64 clients in flight have at most as many places as the limit says, and all are given back', async (t) => {
  const { server, pool } = await startPostgres(t)
  const stores = instances(t, server)
  let inFlight = 0
  let most = 0
  let admitted = 0
  await Promise.all(Array.from({ length: clients }, async (_, client) => {
    for (let request = 0; request < 30; request++) {
      const entry = await stores[client % stores.length]?.enter(key('alice'), 5)
      if (entry?.leave === undefined) continue
      admitted += 1
      most = Math.max(most, ++inFlight)
      await new Promise((resolve) => { setImmediate(resolve) })
      inFlight -= 1
      await entry.leave()
    }
  }))
  t.ok(most <= 5 && most > 1, `${most} were in flight at once`)
  t.ok(admitted > 50, `${admitted} were admitted`)
  t.same((await pool.query('SELECT * FROM llm_quota_place')).rows, [])
})

t.test('a statement waits for the locks of another one only if it must', async (t) => {
  const { pool } = await startPostgres(t)
  const store = new PostgresQuotaStore({ pool })
  await store.acquire('a', 5)
  const other = await pool.connect()
  t.teardown(() => { other.release() })

  await other.query('BEGIN; SELECT FROM llm_quota_state FOR UPDATE')
  const [, known, added] = [store.acquire('a', 5), store.acquire('a', 5), store.acquire('b', 5)]
  t.match(await known, { count: 3 }, 'a decision for a known caller does not wait for one for a new caller of the same batch')
  await other.query('ROLLBACK')
  t.match(await added, { count: 1 })

  await pool.query('UPDATE llm_quota SET last_seen = 0; UPDATE llm_quota_state SET swept_at = 0')
  await other.query("BEGIN; SELECT FROM llm_quota WHERE caller = 'a' FOR UPDATE")
  t.match(await store.acquire('c', 5), { count: 1 }, 'a sweep does not wait for a counter that is in use')
  await other.query('ROLLBACK')
  t.match(await store.inspect(), { trackedCallers: 2, sweeps: 1 })

  await other.query("BEGIN; SELECT llm_quota_enter('another process', NULL, '{default}', '{a}', '{1}', '{0}')")
  const entry = store.enter('a', 1)
  while ((await pool.query("SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")).rows.length === 0) await sleep(5)
  await other.query('COMMIT')
  t.match(await entry, { admitted: false, count: 1 }, 'a place is not taken while another process takes one for the same caller')
})

t.test('no call waits for more than some seconds for tables that another transaction has locked, and a decision that failed is not counted', async (t) => {
  const { pool } = await startPostgres(t)
  const store = new PostgresQuotaStore({ pool })
  await store.acquire('a', 5)
  const { leave } = await store.enter('a', 5)
  const other = await pool.connect()
  t.teardown(() => { other.release() })
  await other.query('BEGIN; LOCK TABLE llm_quota, llm_quota_place')
  const calls: Record<string, () => unknown> = {
    acquire: () => store.acquire('a', 5),
    peek: () => store.peek('a'),
    inspect: () => store.inspect(),
    forget: () => store.forget('a'),
    clearCounters: () => store.clearCounters(),
    enter: () => store.enter('a', 5),
    leave: () => leave?.()
  }
  await Promise.all(Object.entries(calls).map(([name, call]) => t.rejects(async () => call(), { code: '55P03' }, name)))
  await other.query('ROLLBACK')
  t.match(await store.acquire('a', 5), { count: 2 })
})

t.test('calls that remove counters and decisions of clients do not wait for each other in a circle, even while the clock is being set back', async (t) => {
  const { server, pool } = await startPostgres(t)
  let setBack = 0
  const stores = instances(t, server, { clock: () => 1e9 - (setBack += 200) })
  await Promise.all(stores.flatMap((store) => [
    ...Array.from({ length: clients / stores.length }, (_, client) => async (request: number) => store.acquire(key((client * 31 + request * 17) % 30), 1e9)),
    async (request: number) => store.forget(key(request % 30)),
    async () => store.clearCounters()
  ]).map(async (call) => { for (let request = 0; request < 40; request++) await call(request) }))
  const { rows } = await pool.query("SELECT tracked = (SELECT count(*) FROM llm_quota WHERE caller <> 'overflow') AS exact FROM llm_quota_state")
  t.ok(rows.every(({ exact }) => exact === true), 'and the number of tracked callers is that of their counters')
})

t.test('a connection that is terminated fails its decisions only, and no limit is exceeded', async (t) => {
  const { server, pool } = await startPostgres(t)
  const stores = instances(t, server)
  const over = new AbortController()
  const killing = (async () => {
    let killed = 0
    while (!over.signal.aborted) {
      const { rows } = await pool.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%acquire%' AND pid <> pg_backend_pid()")
      killed += rows.length
    }
    return killed
  })()
  const { admitted, failed } = await storm(stores, 80, 20, 100)
  over.abort()
  t.ok(await killing > 20, 'connections were terminated')
  t.ok(failed > 0, `${failed} requests failed`)
  t.ok(Math.max(...admitted.values()) <= 100)
  t.equal((await decided(stores[0] as PostgresQuotaStore, key('another'))).admitted, true)
})

t.test('after a crash of the server, unlogged tables are empty, logged ones keep the counts, and both decide', async (t) => {
  const { server, pool } = await startPostgres(t)
  await pool.query(postgresSchema({ table: 'logged', unlogged: false }))
  const stores = [new PostgresQuotaStore({ pool }), new PostgresQuotaStore({ pool, table: 'logged' })] as const
  for (const store of stores) for (let request = 0; request < 3; request++) await store.acquire(key('alice'), 1_000)
  // Longer than the server takes to write what a transaction without synchronous commit has left.
  await pool.query('SELECT pg_switch_wal()')
  await server.kill()
  await t.rejects(async () => stores[0].acquire(key('alice'), 1_000))
  await server.start()
  t.equal((await decided(stores[0], key('alice'))).count, 1)
  t.equal((await decided(stores[1], key('alice'))).count, 4)
})

t.test('after a failover to a replica, the store decides there', async (t) => {
  const { server, pool } = await startPostgres(t)
  await pool.query(postgresSchema({ table: 'logged', unlogged: false }))
  const replica = await PostgresServer.startReplicaOf(server)
  const replicaPool = replica.pool()
  t.teardown(async () => {
    await replicaPool.end()
    await replica.stop()
  })
  const before = new PostgresQuotaStore({ pool, table: 'logged' })
  for (let request = 0; request < 3; request++) await before.acquire(key('alice'), 1_000)
  await pool.query('SELECT pg_switch_wal()')
  const { rows: [{ position }] } = await pool.query('SELECT pg_current_wal_flush_lsn()::text AS position')
  for (let isBehind = true; isBehind;) {
    const { rows } = await replicaPool.query('SELECT pg_last_wal_replay_lsn() < $1::pg_lsn AS behind', [position])
    isBehind = rows[0].behind
  }
  const [unlogged, logged] = [new PostgresQuotaStore({ pool: replicaPool }), new PostgresQuotaStore({ pool: replicaPool, table: 'logged' })]
  await t.rejects(async () => logged.acquire(key('alice'), 1_000), /read-only|recovery/)
  await server.kill()
  replica.promote()
  t.equal((await decided(logged, key('alice'))).count, 4)
  t.equal((await decided(unlogged, key('alice'))).count, 1)
})

t.test('the store works through a pooler of transactions', async (t) => {
  const { server, pool } = await startPostgres(t)
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'quota-pooler-'))
  chmodSync(folder, 0o755)
  writeFileSync(join(folder, 'users.txt'), '"postgres" ""\n')
  writeFileSync(join(folder, 'pooler.ini'), `[databases]
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
`)
  const asUser = process.getuid?.() === 0 ? ['-u', 'postgres'] : []
  const pooler = spawn('pgbouncer', [...asUser, join(folder, 'pooler.ini')], { stdio: 'ignore' })
  t.teardown(async () => {
    const exited = once(pooler, 'exit')
    pooler.kill('SIGKILL')
    await exited
    rmSync(folder, { recursive: true })
  })
  const stores = instances(t, server, { connectionString: `postgres://postgres@127.0.0.1:${port}/postgres` })
  await decided(stores[0] as PostgresQuotaStore, key('another'))
  const { admitted, failed } = await storm(stores, 40, 20, 25)
  t.equal(failed, 0)
  t.same([...admitted.values()], Array(20).fill(25))
  const { rows: [shown] } = await pool.query('SHOW synchronous_commit')
  t.same(shown, { synchronous_commit: 'on' })
})

t.test('a full disk fails decisions without admitting more, and they succeed once there is room', async (t) => {
  const { server, pool } = await startPostgres(t)
  const disk = mkdtempSync(join(tmpdir(), 'quota-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m,mode=0777', 'tmpfs', disk], { stdio: 'ignore' })
  } catch {
    rmSync(disk, { recursive: true })
    t.comment('a small file system cannot be mounted here')
    return
  }
  t.teardown(async () => {
    await server.kill()
    execFileSync('umount', [disk])
    rmSync(disk, { recursive: true })
  })
  if (process.getuid?.() === 0) execFileSync('chown', ['postgres', disk])
  await pool.query(`CREATE TABLESPACE small LOCATION '${disk}'`)
  await pool.query('ALTER TABLE llm_quota SET TABLESPACE small; ALTER INDEX llm_quota_pkey SET TABLESPACE small')
  const store = new PostgresQuotaStore({ pool, maxTrackedCallers: 1_000_000 })
  let failed = 0
  let admitted = 0
  for (let first = 0; first < 30_000 && failed === 0; first += 1_000) {
    const answers = await Promise.allSettled(Array.from({ length: 1_000 }, async (_, number) => store.acquire(key(first + number), 10)))
    failed += answers.filter(({ status }) => status === 'rejected').length
    admitted += answers.filter(({ status }) => status === 'fulfilled').length
  }
  t.ok(failed > 0, `${failed} decisions failed after ${admitted}`)
  t.match(await store.inspect(), { trackedCallers: admitted })
  await pool.query('ALTER TABLE llm_quota SET TABLESPACE pg_default; ALTER INDEX llm_quota_pkey SET TABLESPACE pg_default')
  t.equal((await decided(store, key('another'))).count, 1)
})
