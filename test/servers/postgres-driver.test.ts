// One call of the PostgreSQL driver: the checks of every driver, and what is its own.
import t from 'tap'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { NotRunError, TryAgainError } from '../../lib/store/shared/driver.js'
import { SchemaFunctions } from '../../lib/store/postgres/functions.js'
import { PostgresDriver } from '../../lib/store/postgres/postgres-driver.js'
import { storedName } from '../../lib/store/shared/stored-names.js'
import { demand } from '../support/demands.js'
import {
  asking,
  callOf,
  checkDriver,
  decideOne,
  named,
  place,
  send,
  start,
  streams,
  taking
} from '../support/driver-checks.js'
import { startPostgres } from '../support/postgres-server.js'
import { setWallClock } from '../support/time.js'

const { pool } = await startPostgres(t)

type Pool = ConstructorParameters<typeof SchemaFunctions>[0]

function driverOn (pool: Pool, cap = Infinity): PostgresDriver {
  const functions = new SchemaFunctions(pool, 'llm_quota', false)
  return new PostgresDriver(functions, { cap, hasJournal: false })
}

async function createDriver (cap?: number): Promise<PostgresDriver> {
  const driver = driverOn(pool, cap)
  await driver.clear(null)
  return driver
}

async function rowsOf (query: string): Promise<unknown[]> {
  const { rows } = await pool.query(query)
  return rows
}

checkDriver({
  createDriver,
  callers: async () => {
    const query = (table: string) => `SELECT counters || ' ' || caller AS caller FROM ${table}`
    const rows = await rowsOf(
      `${query('llm_quota')} UNION ${query('llm_quota_places')} ORDER BY 1`
    )
    return rows.map((row) => Object(row).caller)
  },
  losePlaces: () => pool.query('TRUNCATE llm_quota_places')
})

t.test('a call that was rolled back leaves nothing for longer than ten minutes', async (t) => {
  const driver = await createDriver()
  await send(driver, asking([demand('alice'), demand('bob', { window: 3_600_000 })]))
  await pool.query("SELECT setval('llm_quota_cleaned', $1)", [start + 200_000])
  const left: unknown[] = []
  for (const time of [300_000, 800_000]) {
    await send(driver, callOf({ time: start + time }))
    left.push((await rowsOf('SELECT * FROM llm_quota')).length)
  }
  t.same(left, [2, 1])
})

t.test('places that have ended do not count, and each call deletes 1,000', async (t) => {
  const driver = await createDriver()
  const names = Array.from({ length: 2_500 }, (_, index) => `killed:1:${index}`)
  await send(driver, callOf({ renewed: names.map((name) => named('alice', name)) }))
  const left: unknown[] = []
  for (let call = 0; call < 3; call++) {
    const time = start + 30_000
    const freed = [named('alice', `two:${call - 1}:0`)]
    const next = taking(`two:${call}:0`, place('alice', 1), { time, freed })
    t.match(await decideOne(driver, next), { admitted: true, count: 1 })
    t.match(await driver.list(streams, null, time, 0), { callers: [{ count: 1 }] })
    left.push((await rowsOf('SELECT * FROM llm_quota_places')).length)
  }
  t.same(left, [1_501, 501, 1])
})

t.test('counters are deleted soon after their windows, and each call deletes 1,000', async (t) => {
  const driver = await createDriver()
  const names = Array.from({ length: 2_500 }, (_, index) => `caller ${index}`)
  await send(driver, asking(names.map((name) => demand(name))))
  await send(driver, asking([demand('alice', { window: 3_600_000 })]))
  const left: unknown[] = []
  for (const time of [119_999, 121_000, 121_000, 121_000]) {
    await send(driver, asking([demand('alice')], { time: start + time }))
    left.push((await rowsOf('SELECT * FROM llm_quota')).length)
  }
  t.same(left, [2_501, 1_501, 501, 1])
})

t.test('beside an old snapshot, a call reads nothing that earlier ones deleted', async (t) => {
  const driver = await createDriver()
  const pages: number[] = []
  const explaining = driverOn({
    query: async (text, values) => {
      if (!text.includes('_decide"')) return await pool.query(text, values)
      const { rows } = await pool.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values)
      const [{ Plan: plan }] = rows[0]['QUERY PLAN']
      pages.push(plan['Shared Hit Blocks'] + plan['Shared Read Blocks'])
      return { rows: [] }
    }
  })
  const other = await pool.connect()
  t.teardown(() => {
    other.release()
  })
  await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM llm_quota')
  const names = Array.from({ length: 900 }, (_, caller) => `caller ${caller}`)
  for (let round = 0; round < 10; round++) {
    const time = start + round * 121_000
    await send(driver, asking(names.map((name) => demand(name)), { time }))
    await send(driver, callOf({ time: time + 120_000 }))
    await t.rejects(send(explaining, callOf({ time: time + 121_000 })), /no row with a column/)
  }
  await other.query('ROLLBACK')
  const [first = NaN] = pages
  t.ok(Math.max(...pages) < first + 100, `${pages} pages`)
})

t.test('a counter stays as long as its window, even if all others are deleted', async (t) => {
  const driver = await createDriver()
  const month = 2_678_400_000
  const ask = (callerKey: string, length: number, time: number) =>
    decideOne(driver, asking([demand(callerKey, { window: length })], { time }))
  await ask('alice', month, start)
  await ask('bob', 60_000, start)
  for (let minute = 1; minute <= 10; minute++) {
    await ask('dave', 60_000, start + minute * 60_000)
  }
  t.same(await driver.inspect('default', start + 600_000), { trackedCallers: 2 }, 'bob has none')
  t.match(await ask('alice', month, start + month - 1), { count: 2 })
})

const day = 86_400_000
const hour = 3_600_000

t.test(
  'a counter of a time zone is kept for a minute after its window could last be open, by the ' +
    'clocks of the server and of the process',
  async (t) => {
    const setDate = setWallClock(t)
    const now = Date.now()
    const start = now - day / 2
    const end = start + day
    const withMovingStart = { window: 2 * day, lasts: start + 2 * day }
    for (const { window, lasts, skew } of [
      { window: 27 * hour, lasts: end, skew: 0 },
      { window: 27 * hour, lasts: end, skew: 2 * hour },
      { window: 27 * hour, lasts: end, skew: -2 * hour },
      { ...withMovingStart, skew: 0 }
    ]) {
      setDate(now + skew)
      const driver = await createDriver()
      const time = 1_000_000
      await decideOne(driver, asking([demand('alice', { window, start, end })], { time }))
      const keptFor = lasts - Math.min(now, now + skew) + 60_000
      // The server's clock goes on.
      for (const [later, left] of [[-10_000, 1], [1_000, 0]] as const) {
        await send(driver, callOf({ time: time + keptFor + later }))
        const rows = await rowsOf('SELECT * FROM llm_quota')
        t.equal(rows.length, left, `${window}, skew ${skew}, ${later}`)
      }
    }
  }
)

t.test('places that a clock that is set back keeps are shortened, each call 1,000', async (t) => {
  const driver = await createDriver()
  const names = Array.from({ length: 2_500 }, (_, index) => `one:1:${index}`)
  await send(driver, callOf({ renewed: names.map((name) => named('alice', name)) }))
  const time = start - 900_000
  const late: unknown[] = []
  for (let call = 0; call < 4; call++) {
    await send(driver, callOf({ time }))
    const found = await rowsOf(`SELECT FROM llm_quota_places WHERE ends > ${time + 30_000}`)
    late.push(found.length)
  }
  t.same(late, [1_500, 500, 0, 0])
})

t.test('the names of settlements are deleted with the counters that they settled', async (t) => {
  const driver = await createDriver()
  const { windowId } = await decideOne(driver, asking([demand('alice')]))
  const settlement = {
    counters: 'default',
    row: 'alice',
    windowId,
    window: 60_000,
    lessCount: 1,
    lessHeld: new Map(),
    once: 'a name',
    reference: null
  }
  const settle = async (once: string, time: number) => {
    const settlements = [{ ...settlement, once }]
    const { applied: [isApplied] } = await send(driver, callOf({ settlements, time }))
    return isApplied
  }
  t.equal(await settle('a name', start), true)
  t.equal(await settle('another', start + 59_999), true)
  t.equal(await settle('a third', start + 60_000), false, 'the window is over')
  t.same(await rowsOf('SELECT name FROM llm_quota_once ORDER BY name'), [
    { name: 'a name' },
    { name: 'another' }
  ])
  await send(driver, callOf({ time: start + 120_000 }))
  t.same(await rowsOf('SELECT * FROM llm_quota_once'), [])
})

t.test('a settlement with a name is applied while a day lasts by the server', async (t) => {
  const setDate = setWallClock(t)
  const driver = await createDriver()
  const now = Date.now()
  for (const [left, isApplied] of [[hour, true], [0, false]] as const) {
    const ofDay = { window: 27 * hour, start: now + left - day, end: now + left }
    const caller = `with ${left} ms`
    const { windowId } = await decideOne(driver, asking([demand(caller, ofDay)]))
    for (const skew of [-2 * hour, 2 * hour]) {
      setDate(now + skew)
      const once = `${caller} ${skew}`
      const settlement = {
        counters: 'default',
        row: storedName(caller),
        windowId,
        window: ofDay.window,
        lessCount: 0,
        lessHeld: new Map(),
        once,
        reference: null
      }
      t.same((await send(driver, callOf({ settlements: [settlement] }))).applied, [isApplied], once)
    }
  }
})

/** A pool whose function `decide` returns this. */
function poolReturning (reply: unknown): Pool {
  const found = { schema: 'public', isThisVersion: true, hasJournal: false }
  return {
    query: async (text) => {
      const value = text.includes('to_regclass') ? found : reply
      return { rows: [{ reply: JSON.stringify(value) }] }
    }
  }
}

t.test('a reply that lacks something is an error that names it', async (t) => {
  const only = {
    count: 1,
    held: 0,
    granted: 1,
    hasRoom: true,
    rest: 60_000,
    end: null,
    overflow: false,
    windowId: 3
  }
  const whole = { period: 1, applied: [], decided: [only], standings: [] }
  const answer = async (reply: unknown) =>
    await send(driverOn(poolReturning(reply)), asking([demand('alice')]))
  t.match((await answer(whole)).decided, [[{ admitted: true, windowId: 3 }]])
  for (const name of Object.keys(whole)) {
    await t.rejects(answer({ ...whole, [name]: undefined }), new RegExp(`lacks ${name}`))
  }
  for (const name of ['count', 'held', 'granted', 'hasRoom', 'rest', 'overflow', 'windowId']) {
    await t.rejects(
      answer({ ...whole, decided: [{ ...only, [name]: 'one' }] }),
      new RegExp(`lacks ${name}`)
    )
  }
  await t.rejects(answer({ ...whole, applied: ['yes'] }), /lacks applied/)
  await t.rejects(answer([]), /is not an object/)
})

t.test('a result of the pool that cannot be read is an error that says why', async (t) => {
  const caller = { caller: 'alice', count: 1, held: 0, rest: 60_000, end: null }
  const page = { callers: [caller], cursor: null }
  const unreadable: [rows: unknown[], RegExp][] = [
    [[], /no row with a column reply/],
    [[null], /no row with a column reply/],
    [[{ answer: '{}' }], /no row with a column reply/],
    [[{ reply: 5 }], /is not a text/],
    [[{ reply: null }], /is empty/],
    [[{ reply: '' }], /is empty/],
    [[{ reply: 'a text' }], /JSON/],
    [[{ reply: '{}' }], /lacks callers/],
    [[{ reply: JSON.stringify({ ...page, callers: [5] }) }], /is not an object/],
    [[{ reply: JSON.stringify({ ...page, callers: [{ ...caller, caller: 5 }] }) }], /lacks caller/],
    [[{ reply: JSON.stringify({ ...page, cursor: 5 }) }], /lacks cursor/]
  ]
  for (const [rows, message] of unreadable) {
    const found = poolReturning(null)
    const query = async (text: string, values: unknown[]) =>
      text.includes('to_regclass') ? await found.query(text, values) : { rows }
    const store = new PostgresQuotaStore({ pool: { query } })
    await t.rejects(store.list('default'), message, JSON.stringify(rows))
  }
})

const codes: Record<string, { codes: readonly string[]; error: typeof NotRunError | null }> = {
  'a call that the server has rolled back is sent again if it can succeed in a moment': {
    codes: ['53300', '55P03', '40001', '40P01'],
    error: TryAgainError
  },
  'a call has not run if the server has rolled it back, or if there was no connection': {
    codes: [
      ...['57014', '57P03', '25006', '53100', '53200', '42883', '42P01', '42501', 'P0001', 'XX000'],
      ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']
    ],
    error: NotRunError
  },
  'a call may have run if the connection was lost or the server shut down, also behind a pooler': {
    codes: [
      ...['08006', '08P01', '40003', '57P01', '57P02', '58000'],
      ...['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'undefined']
    ],
    error: null
  },
  'a call may have run if the code is one of a client, though it has the form of a server code': {
    codes: ['P1001', 'P1017', 'P2010', 'P2028', 'FATAL', 'HPERR'],
    error: null
  }
}

for (const [name, { codes: ofErrors, error: expected }] of Object.entries(codes)) {
  t.test(name, async (t) => {
    for (const code of ofErrors) {
      const error = Object.assign(new Error('the call has failed'), { code })
      const found = poolReturning(null)
      const query = async (text: string, values: unknown[]) => {
        if (text.includes('to_regclass')) return await found.query(text, values)
        throw error
      }
      const driver = driverOn({ query })
      const rejected = await send(driver, callOf()).catch((error: unknown) => error)
      if (expected === null) t.equal(rejected, error, code)
      else t.match(rejected, { constructor: expected, cause: error }, code)
      await t.rejects(driver.inspect('default', null), error)
    }
  })
}
