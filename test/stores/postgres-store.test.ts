// The PostgreSQL store on PGlite, which is PostgreSQL in this process.
import { mock } from 'node:test'
import { PGlite } from '@electric-sql/pglite'
import t from 'tap'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { PostgresQuotaStore, postgresSchema, type PostgresQuotaStoreOptions } from '../../lib/postgres.js'
import { quotaStoreContract, VirtualClock } from '../../lib/testing.js'
import { compareWithModel } from '../support/compare-stores.js'
import { virtualPerformance } from '../support/virtual-performance.js'

const pool = await PGlite.create()
t.teardown(async () => { await pool.close() })
await pool.exec(postgresSchema())

const key = (name: string) => String(callerKey(localAuthentication(name)))

async function createStore (options: Partial<PostgresQuotaStoreOptions> = {}) {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  const store = new PostgresQuotaStore({ pool, clock: clock.now, ...options })
  await store.clearCounters()
  return { clock, store }
}

t.test('the store passes each check of quotaStoreContract', async (t) => {
  for (const { name, run } of quotaStoreContract(async (options) => (await createStore(options)).store)) await t.resolves(run(), name)
})

const walks = Number(process.env.RANDOM_WALKS ?? 10)

t.test(`the store has the same results as the model, in ${walks * 500} random steps`, async (t) => {
  const seen = await compareWithModel({ create: async (options) => (await createStore({ rememberRefusals: false, ...options })).store, walks, hasLeases: true })
  t.comment(JSON.stringify(seen))
  t.ok(Object.values(seen).every((count) => count > walks), 'every kind of step was taken often')
})

t.test('requests that arrive together share a statement, whatever their keys', async (t) => {
  const { clock } = await createStore()
  let statements = 0
  const counted = { query: (text: string, values: unknown[]) => pool.query(text, (statements += 1) > 0 ? values : []) }
  const store = new PostgresQuotaStore({ pool: counted, clock: clock.now })
  const names = ['', 'a,b', '{a}', '"quoted"', 'back\\slash', 'NULL', 'zoë 🦊', key('alice')]
  const together = () => Promise.all(names.flatMap((name) => [1, 2, 3].map(() => store.acquire(name, 2))))
  t.same((await together()).map(({ admitted }) => admitted), names.flatMap(() => [true, true, false]))
  t.ok(statements <= 4, `${statements} statements`)
  for (const name of names) t.same(await store.peek(name), { count: 2, windowRemaining: 60_000, overflow: false }, name)
})

t.test('a clock that is set back neither lengthens a window nor results in a negative wait', async (t) => {
  for (const step of [1, 30_000, 59_999, 3_600_000]) {
    let now = 10_000_000
    const { store } = await createStore({ clock: () => now, rememberRefusals: false })
    await store.acquire(key('alice'), 1)
    now += 20_000
    t.equal((await store.acquire(key('alice'), 1)).windowRemaining, 40_000)
    now -= step
    t.match(await store.acquire(key('alice'), 1), { admitted: false, windowRemaining: 40_000 }, `${step} ms back`)
    now += 39_999
    const { windowRemaining } = await store.acquire(key('alice'), 1)
    t.ok(windowRemaining >= 1 && windowRemaining <= 101, `${windowRemaining} ms are left`)
    now += windowRemaining
    t.match(await store.acquire(key('alice'), 1), { admitted: true, windowRemaining: 60_000 })
  }

  let now = 10_000_000
  const { store } = await createStore({ clock: () => now, rememberRefusals: false })
  await store.acquire(key('alice'), 1)
  now -= 3_600_000
  t.match(await store.acquire(key('bob'), 1), { admitted: true })
  t.match(await store.acquire(key('bob'), 1), { admitted: false }, 'nor ends the window of a new caller')
  now += 60_000
  await store.acquire(key('carol'), 1)
  t.match(await store.inspect(), { sweeps: 1 }, 'nor delays a sweep')
})

t.test('a sweep removes a large number of counters step by step, and none that was used since', async (t) => {
  const { clock, store } = await createStore({ maxTrackedCallers: 5_000 })
  await Promise.all(Array.from({ length: 5_000 }, (_, caller) => store.acquire(key(`caller ${caller}`), 5)))
  clock.advance(59_999)
  await Promise.all(Array.from({ length: 1_000 }, (_, caller) => store.acquire(key(`caller ${caller}`), 5)))
  clock.advance(60_001)
  const answers = await Promise.all(Array.from({ length: 4_100 }, (_, caller) => store.acquire(key(`another ${caller}`), 5)))
  t.equal(answers.filter(({ overflow }) => overflow).length, 100)
  t.same(await store.inspect(), { trackedCallers: 5_000, sweeps: 1 })
})

t.test('a sweep reads all pages, wherever it starts, even if the table has become shorter', async (t) => {
  const { clock, store } = await createStore()
  for (const [pages, start] of [[1, 0], [8, 0], [16, 8], [17, 8], [17, 16], [24, 32]] as const) {
    await store.acquire(key('alice'), 1)
    await pool.exec(`TRUNCATE llm_quota; DO $$ BEGIN
      WHILE pg_relation_size('llm_quota') < ${pages} * current_setting('block_size')::bigint LOOP
        INSERT INTO llm_quota VALUES (1, 0, 0, true, 'default', gen_random_uuid());
      END LOOP;
      UPDATE llm_quota_state SET next_page = ${start}, tracked = (SELECT count(*) FROM llm_quota);
    END $$`)
    clock.advance(60_000)
    for (let isOver = false; !isOver;) {
      await store.forget(key('alice'))
      await store.acquire(key('alice'), 1)
      isOver = (await pool.query<{ over: boolean }>('SELECT pages_left = 0 AS over FROM llm_quota_state')).rows[0]?.over === true
    }
    t.same((await pool.query('SELECT count(*)::integer FROM llm_quota')).rows, [{ count: 1 }], `${pages} pages, from page ${start}`)
    t.match(await store.inspect(), { trackedCallers: 1 })
  }
})

t.test('at the cap, a new caller waits for nine statements of a sweep, and then uses the overflow counter', async (t) => {
  const { clock } = await createStore()
  let statements = 0
  const counted = { query: (text: string, values: unknown[]) => pool.query(text, (statements += 1) > 0 ? values : []) }
  const store = new PostgresQuotaStore({ pool: counted, clock: clock.now, maxTrackedCallers: 1 })
  await store.acquire(key('alice'), 5)
  await pool.query('UPDATE llm_quota_state SET pages_left = 1000000000')
  statements = 0
  t.match(await store.acquire(key('bob'), 5), { overflow: true })
  t.equal(statements, 9)
  t.match(await store.acquire(key('alice'), 5), { overflow: false, count: 2 })
  await pool.query('UPDATE llm_quota_state SET swept_at = swept_at + 120000')
  t.match(await store.inspect(), { trackedCallers: 0 }, 'counters that the sweep will delete are not counted')
  t.equal(await store.peek(key('carol')), null, 'and a new caller can get one of their places')

  await pool.exec(`ALTER TABLE llm_quota SET (fillfactor = 10);
    INSERT INTO llm_quota SELECT 1, 0, 0, true, 'another', gen_random_uuid() FROM generate_series(1, 8000);
    ALTER TABLE llm_quota SET (fillfactor = 50)`)
  t.match(await store.peek(key('carol')), { overflow: true, count: 1 }, 'a large table is not searched for them')
  t.match(await store.inspect(), { trackedCallers: 1 })
})

t.test('the places of a process', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => { mock.timers.reset() })
  const { clock, store: one } = await createStore()
  const other = new PostgresQuotaStore({ pool, clock: clock.now })
  const held = [await one.enter(key('alice'), 2), await one.enter(key('alice'), 2)]
  t.match(await other.enter(key('alice'), 2), { admitted: false, count: 2 })

  clock.advance(20_000)
  mock.timers.tick(10_000)
  await one.enter(key('alice'), 0)
  clock.advance(29_999)
  t.match(await other.enter(key('alice'), 2), { admitted: false, count: 2 }, 'are kept while it renews them')
  clock.advance(1)
  const taken = await other.enter(key('alice'), 1)
  t.match(taken, { admitted: true, count: 1 }, 'are lost 30 s after it stopped')
  mock.timers.tick(10_000)
  t.match(await one.enter(key('alice'), 3), { admitted: false, count: 3 }, 'are taken again when it continues')
  t.match(await other.enter(key('alice'), 3), { admitted: false, count: 3 })

  for (const { leave } of [...held, taken]) await leave?.()
  t.same((await pool.query('SELECT * FROM llm_quota_place')).rows, [], 'are given back')
  await pool.query(`INSERT INTO llm_quota_place VALUES ('default', 'a digest', 'a process that has ended', 1, ${clock.now()})`)
  clock.advance(30_000)
  await (await other.enter(key('carol'), 1)).leave?.()
  mock.timers.tick(10_000)
  await other.inspect()
  t.same((await pool.query('SELECT * FROM llm_quota_place')).rows, [], 'are deleted by any process once they are lost')
})

t.test('a place that was taken without a reply is given back at the next renewal', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => { mock.timers.reset() })
  const { clock, store: other } = await createStore()
  let isLost = true
  const losing = {
    async query (text: string, values: unknown[]) {
      const result = await pool.query(text, values)
      if (isLost && text.includes('_enter"')) throw new Error('the connection was closed')
      return result
    }
  }
  const store = new PostgresQuotaStore({ pool: losing, clock: clock.now })
  await t.rejects(async () => store.enter(key('alice'), 1), /closed/)
  t.match(await other.enter(key('alice'), 1), { admitted: false, count: 1 })
  isLost = false
  mock.timers.tick(10_000)
  await store.enter(key('alice'), 0)
  t.match(await other.enter(key('alice'), 1), { admitted: true, count: 1 })
})

t.test('rejections are remembered until the window ends, at most for a minute', async (t) => {
  const { clock, store } = await createStore()
  const daily = store.quota('daily', 86_400_000)
  for (const [quota, relieve] of [[store, 'forget'], [daily, 'forget'], [daily, 'clearCounters']] as const) {
    for (let request = 0; request < 2; request++) await quota.acquire(key('alice'), 1)
    clock.advance(59_999)
    t.notOk(quota.acquire(key('alice'), 1) instanceof Promise)
    clock.advance(1)
    const asked = quota.acquire(key('alice'), 1)
    t.ok(asked instanceof Promise)
    await asked
    await quota[relieve](key('alice'))
    t.match(await quota.acquire(key('alice'), 1), { admitted: true, count: 1 })
  }
})

t.test('any name of a schema and a table can be used', async (t) => {
  for (const [schema, table] of [['public', 'llm_quota_2'], ['my limits', 'Quota'], ['a"b', "it's $1 \\ llm_quota"], [undefined, 'select']] as const) {
    const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
    const name = schema === undefined ? table : `${quoted(schema)}.${quoted(table)}`
    if (schema !== undefined) await pool.exec(`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}`)
    const store = new PostgresQuotaStore({ pool, table: name })
    await t.rejects(async () => store.acquire(key('alice'), 1), /is missing or older than version 1: run the SQL of postgresSchema/)
    for (let run = 0; run < 2; run++) await pool.exec(postgresSchema({ table: name }))
    t.match(await store.acquire(key('alice'), 1), { admitted: true, count: 1 }, name)
    t.match(await store.acquire(key('alice'), 1), { admitted: false, count: 1 })
    t.same((await pool.query(`SELECT count FROM ${schema === undefined ? '' : `${quoted(schema)}.`}${quoted(table)}`)).rows, [{ count: 1 }])
  }
})

t.test('the error for an invalid option contains its name', async (t) => {
  const invalid: [object, RegExp][] = [
    [{ pool: undefined }, /option pool must be a connection pool with a function query; it got undefined/],
    [{ pool: {} }, /option pool must be a connection pool with a function query; it got an object/],
    [{ table: '' }, /option table must be a table's name/],
    [{ table: 'a.b.c' }, /option table must be a table's name/],
    [{ table: 'a$function$b' }, /option table must be a table's name/],
    [{ table: 'x'.repeat(49) }, /option table must be a table's name of at most 48 bytes/],
    [{ maxTrackedCallers: 0 }, /option maxTrackedCallers .* it got 0/],
    [{ rememberRefusals: 'yes' }, /option rememberRefusals must be true or false/],
    [{ clock: 5 }, /option clock must be a function; it got 5/],
    [{ client: pool }, /option client does not exist/]
  ]
  for (const [options, message] of invalid) {
    t.throws(() => Reflect.construct(PostgresQuotaStore, [{ pool, ...options }]), { code: 'FST_ERR_LLM_QUOTA_OPTION', message })
  }
  t.throws(() => postgresSchema({ table: 'a..b' }), /option table/)
  t.match(postgresSchema({ unlogged: false }), /^CREATE TABLE IF NOT EXISTS "llm_quota" \($/m)
  t.equal(new PostgresQuotaStore({ pool }).maxTrackedCallers, 10_000)
})

t.test('a reply that cannot be read rejects', async (t) => {
  const store = new PostgresQuotaStore({ pool: { query: async () => ({ rows: [{ reply: 'an answer' }] }) } })
  await t.rejects(async () => store.acquire(key('alice'), 1), { name: 'TypeError', message: /unexpected reply of the server/ })
})

t.test('decisions of different times are sent one after another, and one that has waited for more than 5 s is not sent any more', async (t) => {
  const machine = virtualPerformance(t)
  const clock = new VirtualClock()
  const replies: ((reply: string) => void)[] = []
  const callers: unknown[] = []
  async function query (text: string, values: unknown[]) {
    if (text.includes('to_regprocedure')) return { rows: [{ reply: 'found' }] }
    callers.push(values[5])
    return { rows: [{ reply: await new Promise<string>((resolve) => { replies.push(resolve) }) }] }
  }
  const store = new PostgresQuotaStore({ pool: { query }, clock: clock.now })
  const sent = async (count: number): Promise<void> => { while (replies.length < count) await new Promise((resolve) => { setImmediate(resolve) }) }

  const first = store.acquire('a', 1)
  await sent(1)
  const second = store.acquire('b', 1)
  clock.advance(1)
  const third = store.acquire('c', 1)
  replies[0]?.('1 60000 1,')
  t.match(await first, { admitted: true })
  await sent(2)
  machine.advance(5_001)
  replies[1]?.('1 60000 1,')
  t.match(await second, { admitted: true })
  await t.rejects(async () => third, { message: 'no answer within 5000 ms' })
  t.same(callers, ['{"a"}', '{"b"}'])
})
