// The SQL of postgresSchema: where it works, who may run what it creates, and what it refuses.
import { readFileSync } from 'node:fs'
import type { PoolConfig } from 'pg'
import t, { type Test } from 'tap'
import { PostgresQuotaStore, postgresSchema } from '../../lib/postgres.js'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'
import { matchExactly } from '../support/match-exactly.js'
import { startPostgres } from '../support/postgres-server.js'

const { server, pool } = await startPostgres(t)

/** Creates a pool that ends with the test. */
function poolFor (t: Test, options: PoolConfig) {
  const own = server.pool(options)
  t.teardown(() => own.end())
  return own
}

t.test(
  'any name of a table can be used, also that of a variable, a column, an alias or a type',
  async (t) => {
    await pool.query('CREATE SCHEMA "my limits"; CREATE SCHEMA "a""b"; CREATE SCHEMA words')
    const tables = [
      'public.llm_quota_2',
      '"my limits"."Quota"',
      '"a""b"."it\'s $1 \\ llm_quota"',
      // Words of the SQL.
      ...['asked', 'bigint', 'caller', 'cap', 'change', 'changed', 'count', 'counted', 'counter'],
      ...['counters', 'dead', 'demand', 'ends', 'given', 'granted', 'held', 'key', 'keys'],
      ...['moment', 'name', 'now', 'opened', 'overflow', 'period', 'place', 'position', 'quota'],
      ...['record', 'request', 'settlement', 'state', 'step'],
      ...['stored', 'text', 'user', 'window', 'wall_time']
    ]
    for (const table of tables) {
      const full = table.includes('.') ? table : `words."${table}"`
      await pool.query(postgresSchema({ table: full, unlogged: false, journal: true }))
      const store = new PostgresQuotaStore({
        pool,
        table: full,
        journal: true,
        maxTrackedCallers: 1,
        rememberRejections: false
      })
      const { receipt } = await acquireOne(store, 'alice', estimate(3, { reference: 'one' }))
      await store.settle(receipt, { count: 1, held: 3 }, 'once')
      const two = { least: 2, most: 2 }
      const [, taken] = await store.acquire([demand('bob', two), demand('bob', place())])
      await acquireOne(store, 'carol', two)
      const pages = [await store.list('default'), await store.list('streams.concurrent')]
      matchExactly(
        t,
        [
          await store.peek(demand('carol')),
          pages.map(({ callers }) => callers.length),
          await store.inspect('default')
        ],
        [{ overflow: true, count: 2 }, [1, 1], { trackedCallers: 1 }],
        table
      )
      await store.settle(taken?.receipt, { count: 1, held: 1 })
      await store.forget('default', String(callerKey(localAuthentication('alice'))))
      await store.clearCounters()
    }
  }
)

t.test('the schema is the first in the search path, whatever the others have', async (t) => {
  await pool.query('CREATE SCHEMA b; CREATE SCHEMA empty; CREATE ROLE tenant LOGIN')
  const tenant = poolFor(t, { options: '-c search_path=b,public' })
  await tenant.query(postgresSchema())
  const store = new PostgresQuotaStore({ pool: tenant, rememberRejections: false })
  const other = new PostgresQuotaStore({ pool, rememberRejections: false })
  t.match(await acquireOne(other, 'tenant'), { count: 1 })
  t.match(await acquireOne(store, 'tenant'), { count: 1 }, 'it shares no counter')
  const counts = async (table: string) =>
    (await pool.query(`SELECT count::integer FROM ${table} WHERE caller = 'tenant'`)).rows
  t.same(await counts('b.llm_quota'), [{ count: 1 }])
  t.same(await counts('public.llm_quota'), [{ count: 1 }])
  const elsewhere = poolFor(t, { options: '-c search_path=empty' })
  const named = new PostgresQuotaStore({
    pool: elsewhere,
    table: 'b.llm_quota',
    rememberRejections: false
  })
  t.match(await acquireOne(named, 'tenant'), { count: 2 }, 'whatever the search path has')
  const { rows } = await tenant.query('SHOW search_path')
  t.same(rows, [{ search_path: 'b,public' }], 'which stays as it was')
})

t.test('a schema that does not exist is named', async (t) => {
  const message = /^there is no schema nowhere for the tables of the request quota$/
  await t.rejects(pool.query(postgresSchema({ table: 'nowhere.llm_quota' })), { message })
})

/** Returns the statements of docs/postgres.md of a kind, for another table. */
function documented (kind: string, table: string): string {
  const page = readFileSync('docs/postgres.md', 'utf8').replaceAll('llm_quota', table)
  const found = page.match(new RegExp(`^${kind} [^;]*;$`, 'gm'))
  return found?.join('\n') ?? ''
}

t.test(
  'the documented statements give the least privileges, and take everything away',
  async (t) => {
    await pool.query(
      `CREATE ROLE service LOGIN; CREATE ROLE billing LOGIN;
      ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
      ${postgresSchema({ table: 'secret', unlogged: false, journal: true })}`
    )
    const own = poolFor(t, { connectionString: server.url.replace('postgres@', 'service@') })
    const createStore = () => new PostgresQuotaStore({ pool: own, table: 'secret', journal: true })
    const store = createStore()
    await t.rejects(acquireOne(store, 'alice'), { code: '42501' })
    await pool.query('REVOKE USAGE ON SCHEMA public FROM PUBLIC')
    await t.rejects(
      acquireOne(createStore(), 'alice'),
      /the table secret does not exist, or the role has no USAGE on its schema/
    )
    await pool.query(documented('GRANT', 'secret'))
    const billed = estimate(2, { reference: 'one' })
    for (const more of [{}, billed, place()]) {
      const { receipt } = await acquireOne(store, 'alice', more)
      await store.settle(receipt, { count: 1, held: 1 })
      t.match(await store.peek(demand('alice', more)), { held: more === billed ? 1 : 0 })
      t.equal((await store.list(demand('alice', more).counters)).cursor, null)
    }
    const { receipt } = await acquireOne(store, 'bob', billed)
    t.equal(await store.settle(receipt, { count: 1, held: 2 }, 'once'), true)
    const alice = String(callerKey(localAuthentication('alice')))
    await acquireOne(store, alice, billed)
    await store.forget('chat.tokens.day', alice)
    t.match(await store.inspect('default'), { trackedCallers: 1 })
    await store.clearCounters()
    for (const statement of ['SELECT * FROM secret_journal', 'DELETE FROM secret_journal']) {
      await t.rejects(own.query(statement), { code: '42501' }, statement)
    }

    const reader = poolFor(t, { connectionString: server.url.replace('postgres@', 'billing@') })
    const { rows } = await reader.query('SELECT sum(change)::integer FROM secret_journal')
    t.same(rows, [{ sum: 0 }])
    for (const statement of [
      'SELECT * FROM secret',
      'DELETE FROM secret_journal',
      'SELECT secret_clear(NULL)'
    ]) {
      await t.rejects(reader.query(statement), { code: '42501' }, statement)
    }

    await pool.query(documented('DROP', 'secret'))
    const left = await pool.query(
      `SELECT relname AS name FROM pg_class WHERE relname LIKE 'secret%'
      UNION SELECT proname FROM pg_proc WHERE proname LIKE 'secret%'
      UNION SELECT typname FROM pg_type WHERE typname LIKE 'secret%'`
    )
    t.same(left.rows, [])
    await pool.query(
      `ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
      GRANT USAGE ON SCHEMA public TO PUBLIC`
    )
  }
)

t.test('migrations that run at the same time succeed', async (t) => {
  const migrate = () =>
    pool.query(postgresSchema({ table: 'together', unlogged: false, journal: true }))
  await t.resolves(Promise.all(Array.from({ length: 8 }, migrate)))
  const store = new PostgresQuotaStore({ pool, table: 'together', journal: true })
  t.match(await acquireOne(store, 'alice'), { count: 1 })
  await migrate()
  t.match(await acquireOne(store, 'alice'), { count: 2 }, 'and change nothing again')
})

t.test('each decision names a missing schema until it is there', async (t) => {
  const store = new PostgresQuotaStore({ pool, table: 'later' })
  for (let decision = 0; decision < 2; decision++) {
    await t.rejects(acquireOne(store, 'alice'), {
      message: /^the table later does not exist, .*: run the SQL of postgresSchema/
    })
  }
  await pool.query(postgresSchema({ table: 'later' }))
  t.match(await acquireOne(store, 'alice'), { admitted: true })
})

t.test('the schema of another version is named, and the migration leaves it alone', async (t) => {
  await pool.query(
    `CREATE TABLE earlier (counters text);
    CREATE FUNCTION earlier_version_5() RETURNS void LANGUAGE sql AS ''`
  )
  const store = new PostgresQuotaStore({ pool, table: 'earlier' })
  await t.rejects(acquireOne(store, 'alice'), {
    message:
      'the table earlier is not of version 11 of the schema: choose another table, or drop this ' +
      'one with its functions, and run the SQL of postgresSchema'
  })
  await t.rejects(pool.query(postgresSchema({ table: 'earlier' })), {
    message: 'the table earlier is not of version 11 of the schema'
  })
  const { rows } = await pool.query("SELECT to_regclass('earlier_places') AS found")
  t.same(rows, [{ found: null }])
})

t.test('another isolation level than read committed is an error that names it', async (t) => {
  for (const level of ['repeatable read', 'serializable']) {
    const strict = poolFor(t, {
      options: `-c default_transaction_isolation=${level.replace(' ', '\\ ')}`
    })
    const store = new PostgresQuotaStore({ pool: strict })
    for (const more of [{}, place()]) {
      await t.rejects(
        acquireOne(store, 'alice', more),
        new RegExp(`needs the isolation level read committed, not ${level}`)
      )
    }
  }
})

t.test('all tables are unlogged, or none with unlogged: false', (t) => {
  const kinds = (schema: string) => schema.match(/^ {2}CREATE (UNLOGGED )?TABLE/gm)
  t.same(kinds(postgresSchema()), Array(4).fill('  CREATE UNLOGGED TABLE'))
  t.same(kinds(postgresSchema({ unlogged: false })), Array(4).fill('  CREATE TABLE'))
  t.end()
})

t.test(
  "a table's name has at most 48 bytes and a schema's 63, however few characters they are",
  async (t) => {
    const message = /option table must be a table's name of at most 48 bytes, .* at most 63 bytes/
    // A quotation mark is written twice in a quoted name.
    for (const character of ['x', 'ä', '表', '🦊', '""']) {
      const bytes = character === '""' ? 1 : Buffer.byteLength(character)
      const table = character.repeat(48 / bytes)
      const schema = `${character.repeat(Math.floor(63 / bytes))}${'x'.repeat(63 % bytes)}`
      const longest = `"${schema}"."${table}"`
      await pool.query(`CREATE SCHEMA "${schema}"; ${postgresSchema({ table: longest })}`)
      const store = new PostgresQuotaStore({ pool, table: longest })
      t.match(await acquireOne(store, 'alice'), { admitted: true }, longest)
      for (const longer of [
        `"${table}x"`,
        `"${table}${character}"`,
        `"${schema}"."x${table}"`,
        `"${schema}x"."${table}"`
      ]) {
        t.throws(() => new PostgresQuotaStore({ pool, table: longer }), { message }, longer)
        t.throws(() => postgresSchema({ table: longer }), { message })
      }
    }
  }
)
