// The PostgreSQL store with the server's clock, on any table, with the least privileges, and with
// another client than pg.
import { readFileSync } from 'node:fs'
import postgres from 'postgres'
import t from 'tap'
import { PostgresQuotaStore, postgresSchema, type PostgresPool } from '../../lib/postgres.js'
import { quotaStoreContract } from '../../lib/testing.js'
import { matchExactly } from '../support/match-exactly.js'
import { startPostgres } from '../support/postgres-server.js'
import { acquireOne, demand, place } from '../support/told-store.js'

const { server, pool } = await startPostgres(t)

t.test('the store uses the clock of the server', async (t) => {
  const store = new PostgresQuotaStore({ pool, rememberRejections: false })
  await acquireOne(store, 'alice')
  await pool.query('UPDATE llm_quota_counters SET ends = ends - 59000')
  const { windowRemaining } = await acquireOne(store, 'alice')
  t.ok(Number(windowRemaining) > 0 && Number(windowRemaining) <= 1_000, `${windowRemaining} ms`)
})

t.test(
  'any name of a table can be used, also that of a variable, a column, an alias or a type',
  async (t) => {
    const names = [
      'asked',
      'bigint',
      'caller',
      'cap',
      'count',
      'counters',
      'decided',
      'demand',
      'demands',
      'deleted',
      'ended',
      'ends',
      'freed',
      'given',
      'granted',
      'have_room',
      'held',
      'key',
      'known',
      'latest',
      'listed',
      'moment',
      'name',
      'now',
      'numeric',
      'own',
      'owner',
      'page',
      'period',
      'place',
      'quota',
      'quotas',
      'reached',
      'record',
      'renewed',
      'request',
      'set_back',
      'shift',
      'stored',
      'sweep',
      'text',
      'time',
      'timestamp',
      'tracked',
      'user',
      'window'
    ]
    await pool.query('CREATE SCHEMA "my limits"; CREATE SCHEMA "a""b"')
    for (const table of [
      'public.llm_quota_2',
      '"my limits"."Quota"',
      '"a""b"."it\'s $1 \\ llm_quota"',
      ...names
    ]) {
      await pool.query(postgresSchema({ table }))
      const store = new PostgresQuotaStore({
        pool,
        table,
        maxTrackedCallers: 1,
        rememberRejections: false
      })
      const acquisition = await acquireOne(store, 'alice')
      await store.settle(acquisition, 0)
      await store.acquire([demand('bob', { least: 2, most: 2 }), demand('bob', place())])
      const pages = [await store.list('default'), await store.list('streams.concurrent')]
      matchExactly(
        t,
        [
          await store.peek(demand('bob')),
          pages.map(({ callers }) => callers.length),
          await store.inspect('default')
        ],
        [{ overflow: true, count: 2 }, [1, 1], { trackedCallers: 1, sweeps: 0 }],
        table
      )
      await store.forget('alice', 'default')
      t.match(await store.inspect('default'), { trackedCallers: 0 })
    }
  }
)

t.test(
  'the documented statements give the least privileges, and take everything away',
  async (t) => {
    const page = readFileSync('docs/postgres.md', 'utf8').replaceAll('llm_quota', 'secret')
    const statements = (kind: string) =>
      page.match(new RegExp(`^${kind} [^;]*;$`, 'gm'))?.join('\n') ?? ''
    await pool.query(
      `CREATE ROLE service LOGIN;
      ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
      ${postgresSchema({ table: 'secret' })}`
    )
    const own = server.pool({ connectionString: server.url.replace('postgres@', 'service@') })
    t.teardown(() => own.end())
    const store = new PostgresQuotaStore({ pool: own, table: 'secret' })
    await t.rejects(acquireOne(store, 'alice'), { code: '42501' })
    await pool.query('REVOKE USAGE ON SCHEMA public FROM PUBLIC')
    await t.rejects(
      acquireOne(new PostgresQuotaStore({ pool: own, table: 'secret' }), 'alice'),
      /the table secret does not exist, or the role has no USAGE on its schema/
    )
    await pool.query(statements('GRANT'))
    for (const more of [{}, place()]) {
      await store.settle(await acquireOne(store, 'alice', more), 0)
      t.match(await store.peek(demand('alice', more)), { count: 0 })
      t.equal((await store.list(demand('alice', more).counters)).cursor, null)
    }
    await store.forget('alice', 'default')
    t.match(await store.inspect('default'), { trackedCallers: 0 })
    await store.clearCounters()
    await pool.query(statements('DROP'))
    const { rows } = await pool.query(
      `SELECT relname AS name FROM pg_class WHERE relname LIKE 'secret%'
      UNION SELECT proname FROM pg_proc WHERE proname LIKE 'secret%'
      UNION SELECT typname FROM pg_type WHERE typname LIKE 'secret%'`
    )
    t.same(rows, [])
  }
)

t.test('migrations that run at the same time succeed', async (t) => {
  await t.resolves(
    Promise.all(Array.from({ length: 8 }, () => pool.query(postgresSchema({ table: 'together' }))))
  )
  t.match(await acquireOne(new PostgresQuotaStore({ pool, table: 'together' }), 'alice'), {
    count: 1
  })
})

t.test('another isolation level than read committed is an error that names it', async (t) => {
  for (const level of ['repeatable read', 'serializable']) {
    const strict = server.pool({
      options: `-c default_transaction_isolation=${level.replace(' ', '\\ ')}`
    })
    t.teardown(() => strict.end())
    const store = new PostgresQuotaStore({ pool: strict })
    for (const more of [{}, place()]) {
      await t.rejects(
        acquireOne(store, 'alice', more),
        new RegExp(`needs the isolation level read committed, not ${level}`)
      )
    }
  }
})

t.test('a pool of pg can have a query of the host that takes only a text and values', async (t) => {
  const own = server.pool()
  t.teardown(() => own.end())
  const query = own.query.bind(own)
  Object.assign(own, {
    query: (text: string, values: unknown[]) => query(`/* service */ ${text}`, values)
  })
  t.match(await acquireOne(new PostgresQuotaStore({ pool: own }), 'of-its-own-query'), { count: 1 })
})

t.test(
  'postgres.js, in a database with another encoding, passes each check of quotaStoreContract',
  { timeout: 300_000 },
  async (t) => {
    await pool.query("CREATE DATABASE latin1 ENCODING 'LATIN1' TEMPLATE template0")
    const sql = postgres(server.url.replace(/postgres$/, 'latin1'))
    await sql.unsafe(postgresSchema())
    t.teardown(() => sql.end())
    const client: PostgresPool = {
      query: async (text, values) => ({ rows: await sql.unsafe(text, values as (string | null)[]) })
    }
    const checks = quotaStoreContract(async (options) => {
      const store = new PostgresQuotaStore({ pool: client, rememberRejections: false, ...options })
      await store.clearCounters()
      return store
    })
    // Longer windows do not depend on the client.
    for (const { name, run } of checks) {
      if (!/of one (hour|day)$/.test(name)) await t.resolves(run(), name)
    }
  }
)
