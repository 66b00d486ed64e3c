// The PostgreSQL store: the rules of every store, and its own.
import t from 'tap'
import {
  PostgresQuotaStore,
  postgresSchema,
  type PostgresQuotaStoreOptions
} from '../../lib/postgres.js'
import { PostgresDriver } from '../../lib/store/postgres/postgres-driver.js'
import { SchemaFunctions } from '../../lib/store/postgres/functions.js'
import { quotaStoreContract, VirtualClock } from '../../lib/testing.js'
import { compareWithReference } from '../support/compare-stores.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'
import { asking, send } from '../support/driver-checks.js'
import { matchExactly } from '../support/match-exactly.js'
import { startPostgres } from '../support/postgres-server.js'
import { until } from '../support/until.js'

const { pool } = await startPostgres(t)

async function createStore (options: Partial<PostgresQuotaStoreOptions> = {}) {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  const store = new PostgresQuotaStore({
    pool,
    clock: clock.now,
    rememberRejections: false,
    ...options
  })
  await store.clearCounters()
  return { clock, store }
}

const checks = quotaStoreContract(async (options) => (await createStore(options)).store)

t.test('the store passes each check of quotaStoreContract', { timeout: 300_000 }, async (t) => {
  for (const { name, run } of checks) await t.test(name, (t) => t.resolves(run()))
})

const walks = Number(process.env.RANDOM_WALKS ?? 2)

t.test(
  `the store has the same results as the reference, in ${walks * 500} random steps`,
  { timeout: 300_000 },
  async (t) => {
    const seen = await compareWithReference({
      create: async (options) => (await createStore(options)).store,
      walks,
      placesEnd: true
    })
    t.comment(JSON.stringify(seen))
    const { overflow, sweeps, ...others } = seen
    t.same([overflow, sweeps], [0, 0])
    t.ok(
      Object.values(others).every((count) => count > walks),
      'every kind of step was taken often'
    )
  }
)

t.test('every caller of a quota has a counter of its own', async (t) => {
  const { store } = await createStore()
  const functions = new SchemaFunctions(pool, 'llm_quota', false)
  const driver = new PostgresDriver(functions, { cap: Infinity, hasJournal: false })
  const callers = Array.from({ length: 10_001 }, (_, index) => `caller ${index}`)
  const { decided } = await send(driver, asking(callers.map((caller) => demand(caller))))
  t.ok(decided.every(([only]) => only?.count === 1 && !only.overflow))
  t.match(await acquireOne(store, 'caller 10000'), { count: 2, overflow: false })
  t.same(await store.inspect('default'), { trackedCallers: 10_001 })
})

t.test(
  'requests and standings that arrive together share a statement, equal standings an answer',
  async (t) => {
    let statements = 0
    const query = (text: string, values: unknown[]) => {
      if (text.includes('_decide"')) statements += 1
      return pool.query(text, values)
    }
    const { clock, store } = await createStore({ pool: { query } })
    const callers = ['alice', 'bob', 'carol']
    const acquire = async (caller: string) =>
      (await acquireOne(store, caller, { limit: 2 })).admitted
    const asked = callers.flatMap((caller) => [acquire(caller), acquire(caller), acquire(caller)])
    const standings = Array.from({ length: 500 }, () => store.peek(demand('alice')))
    t.same(await Promise.all(asked), callers.flatMap(() => [true, true, false]))
    for (const standing of await Promise.all(standings)) t.match(standing, { count: 2 })
    t.equal(statements, 1)

    const all = [
      demand('alice'),
      demand('alice', estimate()),
      demand('alice', { counters: 'chat.tokens.month', window: 2_678_400_000 }),
      demand('alice', place())
    ]
    statements = 0
    await store.acquire(all)
    clock.advance(60_000)
    const found = await store.acquire(all)
    matchExactly(t, found.map((acquisition) => acquisition?.count), [1, 1, 2, 2])
    t.equal(statements, 2, 'one for all quotas of a request')
    await store.clearCounters()
  }
)

t.test('a flood of standings holds up no request', async (t) => {
  const { store } = await createStore()
  let read = 0
  const standings = Array.from({ length: 2_000 }, async (_, caller) => {
    await store.peek(demand(`caller ${caller}`))
    read += 1
  })
  const { count } = await acquireOne(store, 'alice')
  t.equal(count, 1)
  t.ok(read < 500, `${read} standings were read before the request was decided`)
  await Promise.allSettled(standings)
})

t.test(
  'nothing is given back in a window that opened at the same time after the counters were lost',
  async (t) => {
    const { store } = await createStore({ maxTrackedCallers: 1 })
    const lost = [await acquireOne(store, 'alice'), await acquireOne(store, 'bob')]
    await pool.query('TRUNCATE llm_quota, llm_quota_places')
    for (const caller of ['alice', 'bob']) await acquireOne(store, caller)
    for (const { receipt } of lost) await store.settle(receipt, { count: 1, held: 0 })
    const left = [await store.peek(demand('alice')), await store.peek(demand('bob'))]
    matchExactly(t, left, [
      { count: 1, overflow: false },
      { count: 1, overflow: true }
    ])
  }
)

t.test('any process settles with a receipt', async (t) => {
  const { clock, store } = await createStore()
  const { receipt } = await acquireOne(store, 'alice', estimate(5))
  t.equal(typeof receipt, 'string')
  const other = new PostgresQuotaStore({ pool, clock: clock.now })
  const less = { count: 3, held: 5 }
  t.equal(await other.settle(receipt, less, 'job'), true)
  t.equal(await store.settle(receipt, less, 'job'), false)
  t.match(await store.peek(demand('alice', estimate())), { count: 2, held: 0 })
})

t.test('a window keeps its length if that of its quota becomes longer', async (t) => {
  const { clock, store } = await createStore()
  const hour = { window: 3_600_000 }
  await acquireOne(store, 'alice')
  t.match(await acquireOne(store, 'alice', hour), { count: 2, windowRemaining: 60_000 })
  t.match(await store.list('default'), { callers: [{ count: 2, windowRemaining: 60_000 }] })
  clock.advance(60_000)
  t.match(await acquireOne(store, 'alice', hour), { count: 1, windowRemaining: 3_600_000 })
})

t.test('the callers are listed on pages', async (t) => {
  const { clock, store } = await createStore()
  const functions = new SchemaFunctions(pool, 'llm_quota', false)
  const driver = new PostgresDriver(functions, { cap: Infinity, hasJournal: false })
  const callers = Array.from({ length: 1_500 }, (_, caller) => `caller ${caller}`)
  for (const more of [{}, place()]) {
    const demands = callers.map((caller) => demand(caller, more))
    await send(driver, asking(demands, { time: clock.now() }))
    const listed: string[] = []
    let pages = 0
    for (let cursor: string | undefined | null; cursor !== null; pages++) {
      const page = await store.list(demand('', more).counters, cursor)
      listed.push(...page.callers.map(({ callerKey, count }) => `${callerKey} ${count}`))
      cursor = page.cursor
    }
    t.equal(pages, 2)
    t.same(listed.sort(), callers.map((caller) => `${caller} 1`).sort())
  }
})

t.test('names that an index cannot have fail their request, and not the others', async (t) => {
  const { store } = await createStore()
  const long = 'x'.repeat(10_000)
  const asked = [
    acquireOne(store, 'alice'),
    acquireOne(store, long),
    acquireOne(store, 'bob', { counters: long }),
    store.peek(demand(long)),
    acquireOne(store, 'é'.repeat(400), { counters: 'quota'.repeat(20) })
  ]
  const results = await Promise.allSettled(asked)
  t.same(results.map(({ status }) => status), [
    'fulfilled',
    'rejected',
    'rejected',
    'rejected',
    'fulfilled'
  ])
  const message = /counters and callerKey, must have at most 2500 characters .* they have 10007/
  await t.rejects(acquireOne(store, long), { name: 'TypeError', message })
})

/** Runs all statements in one transaction, or after each other on one connection. */
async function connection (t: { teardown(end: () => unknown): unknown }) {
  const client = await pool.connect()
  t.teardown(() => {
    client.release(true)
  })
  const query = (text: string, values: unknown[]) => client.query(text, values)
  return { client, pool: { query } }
}

t.test('the time of a decision is that after the wait for the lock', async (t) => {
  const { client, pool } = await connection(t)
  const store = new PostgresQuotaStore({ pool, rememberRejections: false })
  await client.query('BEGIN')
  // Time passes in the transaction, though its beginning stays the same.
  await until('the window is shorter', async () => {
    const { windowRemaining } = await acquireOne(store, 'alice', { limit: 1_000_000 })
    return Number(windowRemaining) < 60_000
  })
})

t.test('no setting and no lock outlasts a statement', async (t) => {
  const { client, pool } = await connection(t)
  const settings = async () => {
    const { rows } = await client.query(
      `SELECT name, setting FROM pg_settings
      UNION ALL SELECT 'lock', objid::text FROM pg_locks
      WHERE locktype = 'advisory' AND pid = pg_backend_pid()`
    )
    return rows
  }
  // The connection's first function in PL/pgSQL would add the settings of the language.
  await client.query("LOAD 'plpgsql'")
  const before = await settings()
  const { store } = await createStore({ pool })
  const { receipt } = await acquireOne(store, 'alice', estimate(2))
  await store.settle(receipt, { count: 1, held: 2 })
  await store.peek(demand('alice'))
  await store.list('default')
  await store.inspect('default')
  await store.clearCounters()
  t.same(await settings(), before)
})

t.test('the error for an invalid option contains its name', async (t) => {
  const invalid: [object, RegExp][] = [
    [
      { pool: undefined },
      /option pool must be a connection pool with a function query; it got undefined/
    ],
    [{ pool: 'host=db password=hidden' }, /option pool .* it got a string$/],
    [{ password: 'hidden' }, /option password does not exist; it got a string/],
    [{ pool: {} }, /option pool must be a connection pool with a function query; it got an object/],
    [{ table: '' }, /option table must be a table's name/],
    [{ table: 'a.b.c' }, /option table must be a table's name/],
    [{ table: 'a$function$b' }, /option table must be a table's name/],
    [{ table: 'x'.repeat(49) }, /option table must be a table's name of at most 48 bytes/],
    [{ maxTrackedCallers: 0 }, /option maxTrackedCallers .* it got 0/],
    [{ rememberRejections: 'yes' }, /option rememberRejections must be true or false/],
    [{ journal: 'yes' }, /option journal must be true or false/],
    [{ clock: 5 }, /option clock must be a function; it got 5/],
    [{ shards: 4 }, /option shards does not exist/],
    [{ client: pool }, /option client does not exist/]
  ]
  for (const [options, message] of invalid) {
    t.throws(() => Reflect.construct(PostgresQuotaStore, [{ pool, ...options }]), {
      code: 'FST_ERR_LLM_QUOTA_OPTION',
      message
    })
  }
  t.throws(() => postgresSchema({ table: 'a..b' }), /option table/)
  t.equal(new PostgresQuotaStore({ pool }).maxTrackedCallers, Infinity)
})
