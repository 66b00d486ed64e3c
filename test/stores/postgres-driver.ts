// One call of the PostgreSQL driver on PGlite: the checks of every driver, and what is its own.
import t from 'tap'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { PostgresDriver } from '../../lib/store/postgres/postgres-driver.js'
import { functionsOf } from '../../lib/store/postgres/functions.js'
import { NotRunError, TryAgainError } from '../../lib/store/shared/driver.js'
import {
  asking,
  callOf,
  cap,
  checkDriver,
  decideOne,
  named,
  place,
  start,
  streams,
  taking
} from '../support/driver-checks.js'
import { pool } from '../support/pglite.js'
import { demand } from '../support/told-store.js'

async function createDriver (callers: number): Promise<PostgresDriver> {
  const driver = new PostgresDriver(functionsOf(pool, 'llm_quota'), callers)
  await driver.clear()
  return driver
}

async function rowsOf (query: string): Promise<unknown[]> {
  const { rows } = await pool.query(query)
  return rows
}

t.test('an empty call is decided, and leaves nothing behind', async (t) => {
  const driver = await createDriver(cap)
  t.same(await driver.decide(callOf()), [])
  for (const table of ['llm_quota', 'llm_quota_counters', 'llm_quota_places']) {
    t.same(await rowsOf(`SELECT * FROM ${table}`), [], table)
  }
})

checkDriver({
  createDriver,
  callers: async () => {
    const query = (table: string) => `SELECT counters || ' ' || caller AS caller FROM ${table}`
    const rows = await rowsOf(
      `${query('llm_quota_counters')} UNION ${query('llm_quota_places')} ORDER BY 1`
    )
    return rows.map((row) => Object(row).caller)
  },
  losePlaces: () => pool.query('TRUNCATE llm_quota_places')
})

t.test('places that have ended do not count, and go, 1,000 in a second', async (t) => {
  const driver = await createDriver(cap)
  const names = Array.from({ length: 2_500 }, (_, index) => `killed:1:${index}`)
  await driver.decide(callOf({ renewed: names.map((name) => named('alice', name)) }))
  const left: unknown[] = []
  for (let second = 0; second < 3; second++) {
    const time = start + 30_000 + second * 1_000
    const freed = [named('alice', `two:${second - 1}:0`)]
    const next = taking(`two:${second}:0`, place('alice', 1), { time, freed })
    t.match(await decideOne(driver, next), { admitted: true, count: 1 })
    t.match(await driver.list(streams, null, time, 0), { callers: [{ count: 1 }] })
    left.push((await rowsOf('SELECT * FROM llm_quota_places')).length)
  }
  t.same(left, [1_501, 501, 1])
})

t.test('a counter is kept as long as its window, whatever sweeps it', async (t) => {
  const driver = await createDriver(cap)
  const month = 2_678_400_000
  const ask = (callerKey: string, length: number, time: number) =>
    decideOne(driver, asking([demand(callerKey, { window: length })], { time }))
  await ask('alice', month, start)
  await ask('bob', 60_000, start)
  await ask('carol', month, start)
  await ask('carol', 60_000, start)
  for (let minute = 1; minute <= 10; minute++) {
    await ask('dave', 60_000, start + minute * 60_000)
  }
  t.same(await driver.inspect('default', start), { trackedCallers: 3, sweeps: 10 }, 'bob has none')
  t.match(await ask('carol', 60_000, start + month - 1), { count: 3 })
  t.match(await ask('alice', month, start + month - 1), { count: 2 })
})

t.test('a reply that lacks something is an error that names it', async (t) => {
  const whole = {
    period: 1,
    decided: [
      [
        {
          count: 1,
          held: 0,
          granted: 1,
          hasRoom: true,
          rest: 60_000,
          end: null,
          overflow: false,
          windowId: 3
        }
      ]
    ]
  }
  const answer = async (reply: unknown) => {
    const driver = new PostgresDriver(async () => JSON.stringify(reply), cap)
    return driver.decide(asking([demand('alice')]))
  }
  t.match(await answer(whole), [[{ admitted: true, windowId: 3 }]])
  for (const name of Object.keys(whole)) {
    await t.rejects(answer({ ...whole, [name]: undefined }), new RegExp(`lacks ${name}`))
  }
  const [[decided]] = whole.decided as [[object]]
  for (const name of ['count', 'held', 'granted', 'hasRoom', 'rest', 'overflow', 'windowId']) {
    await t.rejects(
      answer({ ...whole, decided: [[{ ...decided, [name]: 'one' }]] }),
      new RegExp(`lacks ${name}`)
    )
  }
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
    const query = async (text: string) =>
      /to_regproc/.test(text) ? { rows: [{ reply: 'found' }] } : { rows }
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
  'a call may have run if the connection was lost or the server shut down': {
    codes: [
      ...['08006', '08P01', '40003', '57P01', '57P02'],
      ...['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'undefined']
    ],
    error: null
  }
}

for (const [name, { codes: ofErrors, error: expected }] of Object.entries(codes)) {
  t.test(name, async (t) => {
    for (const code of ofErrors) {
      const error = Object.assign(new Error('the call has failed'), { code })
      const fail = async () => await Promise.reject(error)
      const driver = new PostgresDriver(fail, cap)
      const rejected = await driver.decide(callOf()).catch((error: unknown) => error)
      if (expected === null) t.equal(rejected, error, code)
      else t.match(rejected, { constructor: expected, cause: error }, code)
      await t.rejects(driver.inspect('default', null), error)
    }
  })
}
