// The PostgreSQL store on PGlite.
import t from 'tap'
import {
  PostgresQuotaStore,
  postgresSchema,
  type PostgresQuotaStoreOptions
} from '../../lib/postgres.js'
import { MemoryQuotaStore } from '../../lib/store/memory/memory-store.js'
import type { Acquisition, Demand, QuotaCount } from '../../lib/store/store.js'
import { quotaStoreContract, VirtualClock } from '../../lib/testing.js'
import { compareWithMemory, compareWithReference } from '../support/compare-stores.js'
import { matchExactly } from '../support/match-exactly.js'
import { pool } from '../support/pglite.js'
import { acquireOne, demand, estimate, place } from '../support/told-store.js'
import { until } from '../support/until.js'
import { virtualPerformance } from '../support/virtual-performance.js'

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

/** Counts the statements that decide. */
function counting () {
  const counted = {
    statements: 0,
    query (text: string, values: unknown[]) {
      if (/_decide"/.test(text)) counted.statements += 1
      return pool.query(text, values)
    }
  }
  return counted
}

// Counters of an hour and of a day are checked on a server, and in the random steps.
const checks = quotaStoreContract(async (options) => (await createStore(options)).store).filter(
  ({ name }) => !/of one (hour|day)$/.test(name)
)

t.test('the store passes each check of quotaStoreContract', { timeout: 300_000 }, async (t) => {
  for (const { name, run } of checks) await t.test(name, (t) => t.resolves(run()))
})

const walks = Number(process.env.RANDOM_WALKS ?? 2)

t.test(
  `the store has the same results as the reference, in ${walks * 250} random steps`,
  { timeout: 300_000 },
  async (t) => {
    const seen = await compareWithReference({
      create: async (options) => (await createStore(options)).store,
      walks,
      length: 250,
      placesEnd: true
    })
    t.comment(JSON.stringify(seen))
    t.ok(
      Object.values(seen).every((count) => count > walks),
      'every kind of step was taken often'
    )
  }
)

t.test(
  'requests that arrive together share a statement, and a caller needs one for all quotas',
  async (t) => {
    const counted = counting()
    const { clock, store } = await createStore({ pool: counted })
    const callers = ['alice', 'bob', 'carol']
    const acquire = async (caller: string) =>
      (await acquireOne(store, caller, { limit: 2 })).admitted
    const admitted = await Promise.all(
      callers.flatMap((caller) => [acquire(caller), acquire(caller), acquire(caller)])
    )
    t.same(admitted, callers.flatMap(() => [true, true, false]))
    t.equal(counted.statements, 1)
    await store.clearCounters()

    const all = ['default', 'chat.tokens.day', 'chat.tokens.month']
      .map((counters) => demand('alice', { counters }))
      .concat(demand('alice', place()))
    await store.acquire(all)
    counted.statements = 0
    matchExactly(
      t,
      await store.acquire(all),
      all.map(() => ({ admitted: true, count: 2 }))
    )
    clock.advance(60_000)
    matchExactly(
      t,
      await store.acquire(all),
      all.map(() => ({ admitted: true }))
    )
    t.match(await acquireOne(store, 'alice', { limit: 1 }), { admitted: false })
    matchExactly(
      t,
      [counted.statements, await store.inspect('default')],
      [3, { sweeps: 1 }],
      'even if a sweep is due'
    )
    await store.clearCounters()
  }
)

t.test(
  'a clock that is set back neither lengthens a window, nor delays a sweep, nor gives a place',
  async (t) => {
    for (const step of [1, 30_000, 59_999, 3_600_000]) {
      let now = 10_000_000
      const { store } = await createStore({ clock: () => now })
      await acquireOne(store, 'alice', { limit: 1 })
      for (let taken = 0; taken < 4; taken++) await acquireOne(store, 'alice', place(4))
      now += 20_000
      for (const caller of ['bob', 'dave', 'dave']) await acquireOne(store, caller)
      now -= step
      t.match(await acquireOne(store, 'dave'), {
        admitted: true,
        count: 3,
        windowRemaining: 60_000
      })
      t.match(
        await acquireOne(store, 'alice', { limit: 1 }),
        { admitted: false, windowRemaining: 40_000 },
        `${step} ms back`
      )
      t.match(await acquireOne(store, 'alice', place(4)), { admitted: false, count: 4 })
      t.match(
        await acquireOne(new PostgresQuotaStore({ pool, clock: () => now }), 'alice', place(4)),
        { admitted: false, count: 4 }
      )
      t.match(await acquireOne(store, 'carol', { limit: 1 }), {
        admitted: true,
        windowRemaining: 60_000
      })
      now += 39_999
      t.match(await acquireOne(store, 'alice', { limit: 1 }), {
        admitted: false,
        windowRemaining: 1
      })
      now += 1
      t.match(await acquireOne(store, 'alice', { limit: 1 }), {
        admitted: true,
        windowRemaining: 60_000
      })
      t.match(await store.inspect('default'), { sweeps: 1 })
      await store.clearCounters()
    }
  }
)

t.test('a window that opens just after the clock was set back has its full length', async (t) => {
  for (const step of [101, 30_000, 3_600_000]) {
    let now = 10_000_000
    const { store } = await createStore({ clock: () => now })
    await acquireOne(store, 'alice')
    now -= step
    t.match(await acquireOne(store, 'bob'), { count: 1, windowRemaining: 60_000 })
    const next = await acquireOne(store, 'bob')
    t.match(next, { count: 2, windowRemaining: 60_000 }, `${step} ms back`)
    await store.clearCounters()
  }
})

t.test(
  'nothing is given back in a window that opened at the same time after the counters were lost',
  async (t) => {
    const { store } = await createStore({ maxTrackedCallers: 1 })
    const [own, overflow] = [await acquireOne(store, 'alice'), await acquireOne(store, 'bob')]
    await pool.exec('TRUNCATE llm_quota, llm_quota_counters, llm_quota_places')
    for (const caller of ['alice', 'bob']) await acquireOne(store, caller)
    for (const acquisition of [own, overflow]) await store.settle(acquisition, 0)
    const left = [await store.peek(demand('alice')), await store.peek(demand('bob'))]
    matchExactly(t, left, [
      { count: 1, overflow: false },
      { count: 1, overflow: true }
    ])
  }
)

t.test('callers who share the overflow counter can settle in one call', async (t) => {
  const { store } = await createStore({ maxTrackedCallers: 1 })
  const tokens = estimate(5, { limit: 100 })
  const callers = ['alice', 'bob', 'carol', 'dave']
  const acquisitions = await Promise.all(
    callers.map((caller) => acquireOne(store, caller, tokens))
  )
  await Promise.all(acquisitions.map((each) => store.settle(each, 1)))
  const left = [await store.peek(demand('alice', tokens)), await store.peek(demand('bob', tokens))]
  matchExactly(t, left, [
    { count: 1, held: 0, overflow: false },
    { count: 3, held: 0, overflow: true }
  ])
})

t.test(
  'a call sweeps 1,000 counters; at the cap, a new caller uses the overflow counter until then, ' +
    'and peek says so',
  async (t) => {
    // No request waits for too long, however slow the machine is.
    virtualPerformance(t)
    const counted = counting()
    const { clock, store } = await createStore({ pool: counted, maxTrackedCallers: 3_000 })
    const askAll = (callers: readonly string[]) =>
      Promise.all(callers.map((caller) => acquireOne(store, caller)))
    // Sorted as the server sorts them.
    const callers = Array.from({ length: 3_000 }, (_, index) => `caller ${10_000 + index}`)
    await askAll(callers)
    clock.advance(60_000)
    await askAll(callers.slice(0, 2_000))
    t.same(await store.inspect('default'), { trackedCallers: 3_000, sweeps: 1 })
    clock.advance(60_000)

    counted.statements = 0
    const peeked: (QuotaCount | null)[] = []
    const found: Acquisition[] = []
    for (const caller of ['new 1', 'new 2', 'new 3', 'new 4']) {
      peeked.push(await store.peek(demand(caller)))
      found.push(await acquireOne(store, caller, { limit: 1 }))
    }
    matchExactly(t, peeked, [null, { overflow: true }, null, null])
    matchExactly(t, found, [
      { admitted: true, overflow: true },
      { admitted: false, overflow: true },
      { admitted: true, overflow: false },
      { admitted: true, overflow: false }
    ])
    t.equal(counted.statements, 4, 'nothing is sent again')
    t.same(await store.inspect('default'), { trackedCallers: 2_002, sweeps: 2 })
  }
)

t.test('a sweep leaves no counter out, and one that is due meanwhile begins later', async (t) => {
  // No request waits for too long, however slow the machine is.
  virtualPerformance(t)
  const { clock, store } = await createStore()
  const callers = Array.from({ length: 2_500 }, (_, index) => `caller ${index}`)
  await Promise.all(callers.map((caller) => acquireOne(store, caller)))
  clock.advance(60_000)
  const states: unknown[] = []
  for (const passed of [60_000, 30_000, 30_000, 1]) {
    clock.advance(passed)
    await acquireOne(store, 'newcomer', { limit: 10 })
    states.push(await store.inspect('default'))
  }
  t.same(states, [
    { trackedCallers: 1_501, sweeps: 1 },
    { trackedCallers: 501, sweeps: 1 },
    { trackedCallers: 1, sweeps: 1 },
    { trackedCallers: 1, sweeps: 2 }
  ])
})

t.test(
  'a counter that a sweep has removed opens a new window, even with the same end',
  async (t) => {
    const { clock, store } = await createStore()
    const day = { start: 0, end: Date.now() + 86_400_000 }
    t.match(await acquireOne(store, 'alice', day), { admitted: true, count: 1 })
    clock.advance(120_000)
    t.match(await acquireOne(store, 'alice', day), { admitted: true, count: 1, end: day.end })
    t.same(await store.inspect('default'), { trackedCallers: 1, sweeps: 1 })
  }
)

t.test('a window keeps its length if that of its quota changes', async (t) => {
  const { clock, store } = await createStore()
  const hour = { window: 3_600_000 }
  await acquireOne(store, 'alice')
  t.match(await acquireOne(store, 'alice', hour), { count: 2, windowRemaining: 60_000 })
  t.match(await store.list('default'), { callers: [{ count: 2, windowRemaining: 60_000 }] })
  clock.advance(60_000)
  t.match(await acquireOne(store, 'alice', hour), { count: 1, windowRemaining: 3_600_000 })
})

t.test('the callers are listed on pages', async (t) => {
  virtualPerformance(t)
  const { store } = await createStore()
  const callers = Array.from({ length: 1_500 }, (_, caller) => `caller ${caller}`)
  for (const more of [{}, place()]) {
    await Promise.all(callers.map((caller) => acquireOne(store, caller, more)))
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

t.test('the time of a decision is that after the wait for the lock', async (t) => {
  const store = new PostgresQuotaStore({ pool, rememberRejections: false })
  await store.clearCounters()
  await pool.query('BEGIN')
  t.teardown(() => pool.query('ROLLBACK'))
  // Time passes in the transaction, though its beginning stays the same.
  await until('the window is shorter', async () => {
    const { windowRemaining } = await acquireOne(store, 'alice', { limit: 1_000_000 })
    return Number(windowRemaining) < 60_000
  })
})

t.test('no setting and no lock outlasts a statement', async (t) => {
  const settings = async () =>
    await pool.query(
      `SELECT name, setting FROM pg_settings
      UNION ALL SELECT 'lock', objid::text FROM pg_locks WHERE locktype = 'advisory'`
    )
  await pool.query('SET synchronous_commit = on')
  const before = await settings()
  const { store } = await createStore()
  await store.settle(await acquireOne(store, 'alice', estimate(2)), 1)
  await store.peek(demand('alice'))
  await store.list('default')
  await store.inspect('default')
  await store.forget('alice', 'default')
  t.same((await settings()).rows, before.rows)
})

t.test('each decision names a missing schema until it is there', async (t) => {
  const store = new PostgresQuotaStore({ pool, table: 'later' })
  for (let decision = 0; decision < 2; decision++) {
    await t.rejects(acquireOne(store, 'alice'), {
      message: /^the table later does not exist, .*: run the SQL of postgresSchema/
    })
  }
  for (let run = 0; run < 2; run++) await pool.exec(postgresSchema({ table: 'later' }))
  t.match(await acquireOne(store, 'alice'), { admitted: true })
})

t.test('the schema of another version is named, and the migration leaves it alone', async (t) => {
  await pool.exec(
    `CREATE TABLE earlier (counters text);
    CREATE FUNCTION earlier_version_5() RETURNS void LANGUAGE sql AS ''`
  )
  const store = new PostgresQuotaStore({ pool, table: 'earlier' })
  await t.rejects(acquireOne(store, 'alice'), {
    message:
      'the table earlier is not of version 7 of the schema: choose another table, or drop this ' +
      'one with its functions, and run the SQL of postgresSchema'
  })
  await t.rejects(pool.exec(postgresSchema({ table: 'earlier' })), {
    message: 'the table earlier is not of version 7 of the schema'
  })
  const { rows } = await pool.query("SELECT to_regclass('earlier_counters') AS found")
  t.same(rows, [{ found: null }])
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
    [{ clock: 5 }, /option clock must be a function; it got 5/],
    [{ client: pool }, /option client does not exist/]
  ]
  for (const [options, message] of invalid) {
    t.throws(() => Reflect.construct(PostgresQuotaStore, [{ pool, ...options }]), {
      code: 'FST_ERR_LLM_QUOTA_OPTION',
      message
    })
  }
  t.throws(() => postgresSchema({ table: 'a..b' }), /option table/)
  t.equal(new PostgresQuotaStore({ pool }).maxTrackedCallers, 10_000)
})

/** A pool that takes statements with a name, as that of `pg`, and rejects them with this code. */
function namingPool (code: string) {
  const sent = { named: 0, unnamed: 0 }
  class Pool {
    readonly totalCount = 1
    connect () {}

    query (statement: string | object, values: unknown[]) {
      sent[typeof statement === 'string' ? 'unnamed' : 'named'] += 1
      if (typeof statement === 'string') return pool.query(statement, values)
      return Promise.reject(Object.assign(new Error('rejected'), { code }))
    }
  }
  return { sent, pool: new Pool() }
}

t.test('a pooler without named statements gets them without a name; nothing else is sent again',
  async (t) => {
    for (const code of ['26000', '42P05']) {
      const { sent, pool } = namingPool(code)
      const { store } = await createStore({ pool })
      t.match(await acquireOne(store, 'alice'), { admitted: true, count: 1 }, code)
      t.equal(sent.named, 1)
    }
    for (const code of ['42601', '57014']) {
      const { sent, pool } = namingPool(code)
      await t.rejects(acquireOne(new PostgresQuotaStore({ pool }), 'alice'), { code })
      t.same(sent, { named: 1, unnamed: 0 }, code)
    }
  }
)

t.test('all tables are unlogged, or none with unlogged: false', (t) => {
  const tables = (schema: string) => schema.match(/^ *CREATE .*TABLE/gm)
  t.same(tables(postgresSchema()), Array(3).fill('  CREATE UNLOGGED TABLE'))
  t.same(tables(postgresSchema({ unlogged: false })), Array(3).fill('  CREATE TABLE'))
  t.end()
})

t.test("a table's name has at most 48 bytes, however few characters they are", (t) => {
  const message = /option table must be a table's name of at most 48 bytes/
  for (const character of ['x', 'ä', '表', '🦊']) {
    const longest = character.repeat(48 / Buffer.byteLength(character))
    t.ok(new PostgresQuotaStore({ pool, table: longest }))
    for (const table of [`${longest}x`, `${longest}${character}`]) {
      t.throws(() => new PostgresQuotaStore({ pool, table }), { message })
      t.throws(() => postgresSchema({ table }), { message })
    }
  }
  t.end()
})

t.test(
  '128 requests that arrive together at the cap have the results of the memory store',
  { timeout: 300_000 },
  async (t) => {
    const draw = random(7)
    let overflow = 0
    for (let round = 0; round < 2; round++) {
      const { clock, store } = await createStore({ maxTrackedCallers: 20 })
      const memory = new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers: 20 })
      for (let batch = 0; batch < 4; batch++) {
        const requests = Array.from({ length: 128 }, () => drawRequest(draw))
        const acquisitions = await compareWithMemory(store, memory, requests)
        overflow += acquisitions.filter((acquisition) => acquisition.overflow).length
        clock.advance(draw(3) * 60_000)
      }
    }
    t.ok(overflow > 300, `${overflow} demands used the overflow counter`)
  }
)

/** Returns a function that draws an integer from 0 to below a bound; always the same ones. */
function random (seed: number): (bound: number) => number {
  let state = seed
  return (bound) => {
    state = (state * 48_271) % 2_147_483_647
    return state % bound
  }
}

/** Draws a request of one to three quotas, of which new and known callers take turns. */
function drawRequest (draw: (bound: number) => number): Demand[] {
  const quotas = ['default', 'chat.tokens.day', 'chat.tokens.hour'].slice(draw(3))
  return quotas.map((counters) => {
    const callerKey = `caller ${draw(40)}`
    const least = draw(3)
    const more = { counters, least, most: least + draw(3), isEstimate: draw(2) === 0 }
    return demand(callerKey, { ...more, limit: 5 + draw(9) })
  })
}

t.test('a reply that cannot be read rejects', async (t) => {
  const store = new PostgresQuotaStore({
    pool: { query: async () => ({ rows: [{ reply: 'an answer' }] }) }
  })
  await t.rejects(acquireOne(store, 'alice'), SyntaxError)
})
