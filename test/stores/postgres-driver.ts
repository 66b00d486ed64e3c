// One call of the PostgreSQL driver: leases and places, settlements and names, on PGlite.
import t from 'tap'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { PostgresDriver } from '../../lib/store/postgres/postgres-driver.js'
import { functionsOf } from '../../lib/store/postgres/schema.js'
import type { Call, Decided, Holding, Lease } from '../../lib/store/shared/driver.js'
import type { Demand } from '../../lib/store/store.js'
import { pool } from '../support/pglite.js'

const cap = 100
const start = 1_000_000
const streams = 'streams.concurrent'

async function createDriver (): Promise<PostgresDriver> {
  const driver = new PostgresDriver(functionsOf(pool, 'llm_quota'), cap)
  await driver.clear()
  return driver
}

function window (callerKey: string, more: Partial<Demand> = {}): Demand {
  return {
    counters: 'default',
    callerKey,
    limit: 5,
    least: 1,
    most: 1,
    isEstimate: false,
    window: 60_000,
    end: null,
    ...more
  }
}

function place (callerKey: string, limit: number): Demand {
  return window(callerKey, { counters: streams, limit, isEstimate: true, window: null })
}

function callOf (more: Partial<Call> = {}): Call {
  return { time: start, lease: null, holdings: [], settlements: [], requests: [], ...more }
}

function leaseOf (process: string, number: number, more: Partial<Lease> = {}): Lease {
  return { process, number, generation: 1, isComplete: true, ...more }
}

function holding (callerKey: string, held: number): Holding {
  return { counters: streams, callerKey, held }
}

/** A call in which a process that holds so many places of a caller asks for one more. */
function placeCall (lease: Lease, callerKey: string, held: number, limit: number): Call {
  return callOf({
    lease,
    holdings: [holding(callerKey, held)],
    requests: [[place(callerKey, limit)]]
  })
}

/** Sends a call with one request of one demand until it is decided, as a shard does. */
async function decideOne (driver: PostgresDriver, call: Call): Promise<Decided> {
  let { lease } = call
  for (let sent = 0; sent < 100; sent++) {
    const { decided } = await driver.decide({ ...call, lease })
    const [decision] = decided[0] ?? []
    if (decision !== undefined) return decision
    if (lease !== null) lease = { ...lease, number: lease.number + 1 }
  }
  throw new Error('the request is not decided')
}

async function rowsOf (table: string): Promise<unknown[]> {
  const { rows } = await pool.query(`SELECT * FROM ${table}`)
  return rows
}

async function countPlaces (driver: PostgresDriver, callerKey: string): Promise<unknown> {
  const peeked = await driver.peek(place(callerKey, 1), start)
  return peeked?.count
}

t.test('a place is counted, and nothing is left behind when it is free again', async (t) => {
  const driver = await createDriver()
  t.match(await decideOne(driver, placeCall(leaseOf('one', 1), 'alice', 0, 2)), {
    admitted: true,
    count: 1,
    held: 1,
    granted: 1,
    windowRemaining: null,
    overflow: false
  })
  const taken = await driver.decide(placeCall(leaseOf('one', 2), 'alice', 1, 1))
  t.match(taken, { latestNumber: 1, decided: [[{ admitted: false, count: 1, granted: 0 }]] })
  t.same(await driver.inspect(streams), { trackedCallers: 1, sweeps: 0 })
  const freed = callOf({ lease: leaseOf('one', 3), holdings: [holding('alice', 0)] })
  t.same(await driver.decide(freed), { decided: [], latestNumber: 2 })
  for (const table of ['llm_quota', 'llm_quota_places', 'llm_quota_leases']) {
    t.same(await rowsOf(table), [], table)
  }
})

t.test('a rejected place leaves nothing behind', async (t) => {
  const driver = await createDriver()
  await decideOne(driver, callOf({ requests: [[window('alice', { limit: 1 })]] }))
  const { decided } = await driver.decide(
    callOf({
      lease: leaseOf('one', 1),
      holdings: [holding('alice', 0)],
      requests: [[place('alice', 1), window('alice', { limit: 1 })]]
    })
  )
  t.match(decided, [
    [
      { admitted: true, count: 0, held: 0, granted: 0 },
      { admitted: false, count: 1 }
    ]
  ])
  t.same(await rowsOf('llm_quota_places'), [])
  t.same(await rowsOf('llm_quota_leases'), [])
  t.same((await rowsOf('llm_quota')).length, 1)
})

t.test('a late call changes nothing and fails', async (t) => {
  const driver = await createDriver()
  await decideOne(driver, placeCall(leaseOf('one', 5), 'alice', 0, 9))
  const before = await rowsOf('llm_quota')
  for (const number of [4, 5]) {
    const late = callOf({
      lease: leaseOf('one', number),
      holdings: [holding('alice', 7)],
      requests: [[place('alice', 9)], [window('alice')]]
    })
    await t.rejects(driver.decide(late), /the call is late/)
  }
  t.same(await rowsOf('llm_quota'), before)
})

t.test('the next call corrects what a lost reply has left uncertain', async (t) => {
  const driver = await createDriver()
  // The process does not know that its call has taken a place.
  await driver.decide(placeCall(leaseOf('one', 1), 'alice', 0, 9))
  await driver.decide(placeCall(leaseOf('two', 1), 'alice', 0, 9))
  t.equal(await countPlaces(driver, 'alice'), 2)
  const decided = await decideOne(driver, placeCall(leaseOf('one', 2), 'alice', 0, 9))
  t.match(decided, { admitted: true, count: 2 })
  // Or the call that freed a place was lost.
  const freed = callOf({ lease: leaseOf('one', 3), holdings: [holding('alice', 0)] })
  await driver.decide(freed)
  t.equal(await countPlaces(driver, 'alice'), 1)
})

t.test('the places of a process whose lease has ended are free, and it is told so', async (t) => {
  const driver = await createDriver()
  const callers = Array.from({ length: 3_000 }, (_, number) => `caller ${number}`)
  await driver.decide(
    callOf({ lease: leaseOf('killed', 1), holdings: callers.map((caller) => holding(caller, 1)) })
  )
  const at = (time: number, lease: Lease, caller: string): Call => ({
    ...placeCall(lease, caller, 0, 1),
    time
  })
  const before = at(start + 29_999, leaseOf('two', 1), 'caller 2999')
  t.match(await decideOne(driver, before), { admitted: false, count: 1 })
  t.same(await driver.inspect(streams), { trackedCallers: 3_000, sweeps: 0 })
  const ended = start + 30_000
  const peeked = await driver.peek(place('caller 2999', 1), ended)
  t.same(peeked?.count, 0, 'peek and list know it at once')
  t.match(await driver.list(streams, null, ended, 0), { callers: [], cursor: 'caller 1899' })
  t.match(await decideOne(driver, at(ended, leaseOf('two', 1), 'caller 2999')), {
    admitted: true,
    count: 1
  })
  t.match(await driver.decide(at(ended, leaseOf('killed', 2), 'caller 7')), {
    latestNumber: 0
  })
})

t.test('a process whose lease has ended is told so if its own call is the next one', async (t) => {
  const driver = await createDriver()
  const callAt = (time: number, number: number): Call =>
    callOf({ time, lease: leaseOf('one', number), holdings: [holding('alice', 1)] })
  t.match(await driver.decide(callAt(start, 1)), { latestNumber: 0 })
  t.match(await driver.decide(callAt(start + 29_999, 2)), { latestNumber: 1 })
  t.match(await driver.decide(callAt(start + 59_999, 3)), { latestNumber: 0 })
  t.equal(await countPlaces(driver, 'alice'), 1)
})

t.test('a renewal keeps all places with one write', async (t) => {
  const driver = await createDriver()
  await driver.decide(
    callOf({ lease: leaseOf('one', 1), holdings: [holding('alice', 1), holding('bob', 2)] })
  )
  const renewal = callOf({ lease: leaseOf('one', 2), time: start + 10_000 })
  t.same(await driver.decide(renewal), { decided: [], latestNumber: 1 })
  const other = { ...placeCall(leaseOf('two', 1), 'bob', 0, 2), time: start + 39_999 }
  t.match(await decideOne(driver, other), { admitted: false, count: 2 })
})

t.test(
  'what a process does not state in a new generation is free once it is complete',
  async (t) => {
    const driver = await createDriver()
    const callers = Array.from({ length: 1_500 }, (_, number) => `caller ${number}`)
    const holdings = callers.map((caller) => holding(caller, 1))
    await driver.decide(callOf({ lease: leaseOf('one', 1), holdings }))
    const generation = 2
    const stated = { holdings: [holding('caller 0', 1)] }
    await driver.decide(
      callOf({ lease: leaseOf('one', 2, { generation, isComplete: false }), ...stated })
    )
    t.equal(await countPlaces(driver, 'caller 1499'), 1)
    const other = placeCall(leaseOf('two', 1), 'caller 1499', 0, 1)
    t.match(await decideOne(driver, other), { admitted: false })
    await driver.decide(callOf({ lease: leaseOf('one', 3, { generation }) }))
    t.match(await decideOne(driver, placeCall(leaseOf('two', 2), 'caller 1499', 0, 1)), {
      admitted: true
    })
    await driver.decide(
      callOf({ lease: leaseOf('two', 50), holdings: [holding('caller 1499', 0)] })
    )
    t.same(await driver.inspect(streams), { trackedCallers: 1, sweeps: 0 })
    t.equal((await rowsOf('llm_quota_places')).length, 1)
  }
)

t.test('settlements change the window that counted, and no other', async (t) => {
  const driver = await createDriver()
  const estimate = window('alice', { limit: 100, least: 10, most: 60, isEstimate: true })
  const first = await decideOne(driver, callOf({ requests: [[estimate]] }))
  t.match(first, { count: 60, held: 60, granted: 60 })
  const second = await decideOne(driver, callOf({ requests: [[estimate]] }))
  t.match(second, { admitted: true, count: 100, held: 100, granted: 40 })
  t.match(await decideOne(driver, callOf({ requests: [[estimate]] })), {
    admitted: false,
    count: 100,
    granted: 0
  })
  const settlement = (windowId: number) => ({
    counters: 'default',
    callerKey: 'alice',
    overflow: false,
    windowId,
    lessCount: 15,
    lessHeld: 60
  })
  const settlements = [
    settlement(first.windowId),
    settlement(first.windowId + 1),
    { ...settlement(first.windowId), overflow: true },
    { ...settlement(first.windowId), callerKey: 'nobody' }
  ]
  await driver.decide(callOf({ settlements }))
  t.match(await driver.peek(estimate, start), { count: 85, held: 40 })
  t.same(
    (await rowsOf('llm_quota')).length + (await rowsOf('llm_quota_tracking')).length,
    2,
    'and insert nothing'
  )
})

t.test('at the cap, what is settled on the overflow counter is its own', async (t) => {
  const driver = new PostgresDriver(functionsOf(pool, 'llm_quota'), 1)
  await driver.clear()
  await decideOne(driver, callOf({ requests: [[window('alice')]] }))
  const { windowId, ...counted } = await decideOne(
    driver,
    callOf({ requests: [[window('bob', { least: 3, most: 3, isEstimate: true })]] })
  )
  t.match(counted, { overflow: true, count: 3, held: 3 })
  const settlement = { counters: 'default', callerKey: 'bob', windowId, lessCount: 1, lessHeld: 3 }
  await driver.decide(callOf({ settlements: [{ ...settlement, overflow: true }] }))
  t.match(await driver.peek(window('carol'), start), { count: 2, held: 0, overflow: true })
})

t.test(
  'no name of a caller or of counters meets what the store keeps beside the callers',
  async (t) => {
    const driver = new PostgresDriver(functionsOf(pool, 'llm_quota'), 3)
    await driver.clear()
    const internals = ['overflow', 'state', 'places', 'caller', '']
    const ask = (counters: string, caller: string) =>
      decideOne(driver, callOf({ requests: [[window(caller, { counters })]] }))
    for (const caller of ['a', 'b', 'c']) await ask('default', caller)
    t.match(await ask('default', 'd'), { overflow: true, count: 1 })
    for (const caller of internals) await driver.forget(caller, 'default')
    t.same(await driver.inspect('default'), { trackedCallers: 3, sweeps: 0 })
    for (const [index, caller] of internals.entries()) {
      t.match(
        await ask('default', caller),
        { overflow: true, count: Math.min(index + 2, 5) },
        caller
      )
    }
    for (const counters of internals) {
      t.match(await ask(counters, 'alice'), { overflow: false, count: 1 }, counters)
      t.match(await ask(counters, ''), { overflow: false, count: 1 }, counters)
    }
  }
)

t.test('any string is a name', async (t) => {
  const driver = await createDriver()
  const names = [
    '',
    ' ',
    'a"b',
    'a\\b',
    '\\u0061',
    'a',
    '\0',
    '\ud800',
    '\udfff',
    'zoë',
    '🦊',
    '\n'
  ]
  for (const name of names) {
    const call = callOf({ requests: [[window(name, { counters: `quota ${name}` })]] })
    t.match(await decideOne(driver, call), { count: 1, overflow: false }, JSON.stringify(name))
    t.match(await driver.list(`quota ${name}`, null, start, 0), { callers: [{ callerKey: name }] })
  }
  const together = await driver.decide(
    callOf({ requests: names.map((name) => [window(name, { counters: 'together' })]) })
  )
  t.same(
    together.decided.map((decided) => decided?.[0]?.count),
    names.map(() => 1)
  )
})

t.test('a reply that lacks something is an error that names it', async (t) => {
  const whole = {
    clock: [start, start + 100, 0],
    latestNumber: 0,
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
    return driver.decide(callOf({ requests: [[window('alice')]] }))
  }
  t.match(await answer(whole), { decided: [[{ admitted: true, windowId: 3 }]] })
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
  const caller = { callerKey: 'alice', count: 1, held: 0, rest: 60_000, end: null }
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
    [[{ reply: JSON.stringify({ ...page, callers: [{ ...caller, callerKey: 5 }] }) }], /callerKey/],
    [[{ reply: JSON.stringify({ ...page, cursor: 5 }) }], /lacks cursor/]
  ]
  for (const [rows, message] of unreadable) {
    const query = async (text: string) =>
      /to_regproc/.test(text) ? { rows: [{ reply: 'found' }] } : { rows }
    const store = new PostgresQuotaStore({ pool: { query } })
    await t.rejects(store.list('default'), message, JSON.stringify(rows))
  }
})
