import t from 'tap'
import { periodLength } from '../../lib/store/counter.js'
import type {
  Call,
  Decided,
  Driver,
  NamedPlace,
  Reply,
  Settlement
} from '../../lib/store/shared/driver.js'
import { overflowRow } from '../../lib/store/shared/stored-names.js'
import type { Demand, QuotaCount } from '../../lib/store/store.js'
import { demand as demandOf, place as placeOf } from './demands.js'

/** A server that a driver knows. */
interface CheckedServer {
  /** Creates a driver on an empty server. Default: for any number of callers. */
  createDriver(cap?: number): Promise<Driver>
  /** Returns the counters and the key of each caller of which the server keeps anything. */
  callers(): Promise<string[]>
  /** Removes all places. */
  losePlaces(): Promise<unknown>
}

// Within a period.
export const start = 1_000_000
export const streams = 'streams.concurrent'

export function place (callerKey: string, limit: number): Demand {
  return demandOf(callerKey, placeOf(limit))
}

let latestCall = 0

export function callOf (more: Partial<Call> = {}): Call {
  latestCall += 1
  return {
    process: 'one',
    number: latestCall,
    time: start,
    placeDuration: 30_000,
    periodLength,
    firstWindowId: 100 * latestCall,
    freed: [],
    renewed: [],
    settlements: [],
    requests: [],
    standings: [],
    ...more
  }
}

/** Sends a call. */
export async function send (driver: Driver, call: Call): Promise<Reply> {
  const connection = await driver.connect()
  return await connection.run(call)
}

export function named (callerKey: string, name: string): NamedPlace {
  return { counters: streams, callerKey, name }
}

/** A call with one request for each demand. */
export function asking (demands: readonly Demand[], more: Partial<Call> = {}): Call {
  return callOf({
    requests: demands.map((demand, index) => ({ demands: [demand], place: `one:1:${index}` })),
    ...more
  })
}

/** A call with a request for one place, which has this name. */
export function taking (name: string, demand: Demand, more: Partial<Call> = {}): Call {
  return callOf({ requests: [{ demands: [demand], place: name }], ...more })
}

/** A settlement of what `alice` has counted in the default quota. */
export function settlementOf (
  windowId: number,
  lessCount: number,
  lessHeld: ReadonlyMap<number, number>
): Settlement {
  return {
    counters: 'default',
    row: 'alice',
    windowId,
    window: 60_000,
    lessCount,
    lessHeld,
    once: null,
    reference: null
  }
}

/** Returns what was decided on the only demand of a call, and in which period. */
export async function decideOne (
  driver: Driver,
  call: Call
): Promise<Decided & { readonly period: number }> {
  const { decided: [decided = []], period } = await send(driver, call)
  const [only, another] = decided
  if (only === undefined || another !== undefined) throw new Error('there is not one demand')
  return { ...only, period }
}

/** Returns the count that a demand would find. */
async function read (driver: Driver, demand: Demand, time = start): Promise<QuotaCount | null> {
  const { standings: [standing = null] } = await send(driver, callOf({ time, standings: [demand] }))
  return standing
}

async function countPlaces (driver: Driver, callerKey: string, time = start): Promise<unknown> {
  const found = await read(driver, place(callerKey, 1), time)
  return found?.count
}

/** Tests one call of a driver at a time: places, settlements and windows. */
export function checkDriver (server: CheckedServer): void {
  const createDriver = (cap?: number): Promise<Driver> => server.createDriver(cap)

  t.test('an empty call is decided, and leaves nothing behind', async (t) => {
    const driver = await createDriver()
    const reply = await send(driver, callOf())
    t.same(reply, { period: 1, applied: [], decided: [], standings: [] })
    t.same(await server.callers(), [])
  })

  t.test('a place is counted, and nothing is left behind when it is free again', async (t) => {
    const driver = await createDriver()
    t.match(await decideOne(driver, taking('one:1:0', place('alice', 2))), {
      admitted: true,
      count: 1,
      held: 1,
      granted: 1,
      windowRemaining: null,
      overflow: false
    })
    t.match(await decideOne(driver, taking('two:1:0', place('alice', 2))), { count: 2, held: 2 })
    t.match(await decideOne(driver, taking('one:2:0', place('alice', 2))), {
      admitted: false,
      count: 2,
      held: 2,
      granted: 0
    })
    t.match(await decideOne(driver, taking('one:3:0', place('bob', 1))), { count: 1 })
    t.same(await driver.inspect(streams, start), { trackedCallers: 2 })
    const freed = [named('alice', 'one:1:0'), named('alice', 'two:1:0'), named('bob', 'one:3:0')]
    const next = taking('one:4:0', place('alice', 1), { freed })
    t.match(await decideOne(driver, next), { admitted: true, count: 1 })
    await send(driver, callOf({ freed: [named('alice', 'one:4:0')] }))
    t.same(await server.callers(), [])
  })

  t.test('a caller with several places is listed and counted once', async (t) => {
    const driver = await createDriver()
    const names = ['one:1:0', 'one:1:1', 'one:1:2']
    await send(driver, callOf({ renewed: names.map((name) => named('alice', name)) }))
    t.same(await driver.inspect(streams, start), { trackedCallers: 1 })
    const { callers } = await driver.list(streams, null, start, 0)
    t.same(callers.map(({ callerKey, count }) => [callerKey, count]), [['alice', 3]])
  })

  t.test('a rejected request takes no place', async (t) => {
    const driver = await createDriver()
    await send(driver, asking([demandOf('alice', { limit: 1 })]))
    const demands = [place('alice', 1), demandOf('alice', { limit: 1 })]
    const { decided } = await send(
      driver,
      callOf({ requests: [{ demands, place: 'one:2:0' }] })
    )
    t.match(decided, [
      [
        { admitted: true, count: 0, held: 0, granted: 0 },
        { admitted: false, count: 1, granted: 0 }
      ]
    ])
    t.equal(await countPlaces(driver, 'alice'), 0)
  })

  t.test('a call that the server gets twice takes a place once and frees it once', async (t) => {
    const driver = await createDriver()
    const take = taking('one:1:0', place('alice', 1))
    t.match(await decideOne(driver, take), { admitted: true, count: 1, held: 1, granted: 1 })
    await send(driver, take)
    t.equal(await countPlaces(driver, 'alice'), 1)
    const other = taking('two:1:0', place('alice', 2))
    t.match(await decideOne(driver, other), { admitted: true, count: 2 })
    const free = callOf({ freed: [named('alice', 'one:1:0')] })
    for (let sent = 0; sent < 2; sent++) {
      await send(driver, free)
      t.equal(await countPlaces(driver, 'alice'), 1, 'the place of another request is still taken')
    }
  })

  t.test('a call that is late or lost leaves a place taken for 30 s at most', async (t) => {
    const driver = await createDriver()
    const free = callOf({ freed: [named('alice', 'one:1:0')] })
    const late = new Map<string, Call>([
      ['a request', taking('one:1:0', place('alice', 9))],
      ['a renewal', callOf({ renewed: [named('alice', 'one:1:0')] })]
    ])
    for (const [what, call] of late) {
      await send(driver, free)
      await send(driver, call)
      t.equal(await countPlaces(driver, 'alice', start + 29_999), 1, `${what} after it was freed`)
      t.equal(await countPlaces(driver, 'alice', start + 30_000), 0, what)
      await send(driver, free)
      t.equal(await countPlaces(driver, 'alice'), 0, 'and until the name is freed once more')
    }
  })

  t.test('the places of a process that was killed are free when they end, no later', async (t) => {
    const driver = await createDriver()
    await send(driver, callOf({ renewed: [named('alice', 'killed:1:0')] }))
    const take = (name: string, time: number) =>
      decideOne(driver, taking(name, place('alice', 1), { time }))
    const ended = start + 30_000
    t.match(await take('two:1:0', ended - 1), { admitted: false, count: 1 })
    t.equal(await countPlaces(driver, 'alice', ended - 1), 1)
    t.equal(await countPlaces(driver, 'alice', ended), 0)
    t.match(await take('two:2:0', ended), { admitted: true, count: 1 })
  })

  t.test('a caller is counted while any of its places is not free', async (t) => {
    const driver = await createDriver()
    const renewed = [named('alice', 'one:1:0'), named('alice', 'one:1:1')]
    await send(driver, callOf({ renewed }))
    for (const [freed, trackedCallers] of [[renewed[0], 1], [renewed[1], 0]] as const) {
      await send(driver, callOf({ freed: freed === undefined ? [] : [freed] }))
      t.same(await driver.inspect(streams, start), { trackedCallers })
    }
  })

  t.test('a caller is listed and counted until its last place ends', async (t) => {
    const driver = await createDriver()
    const renewed = [named('alice', 'killed:1:0'), named('bob', 'killed:1:1')]
    await send(driver, callOf({ renewed }))
    const ended = start + 30_000
    t.equal((await driver.list(streams, null, ended - 1, 0)).callers.length, 2)
    t.same(await driver.inspect(streams, ended - 1), { trackedCallers: 2 })
    t.same(await driver.list(streams, null, ended, 0), { callers: [], cursor: null })
    t.same(await driver.inspect(streams, ended), { trackedCallers: 0 })
    await send(driver, taking('two:1:0', place('alice', 1), { time: ended }))
    t.same(await driver.inspect(streams, ended), { trackedCallers: 1 })
  })

  t.test('a renewal keeps a place for 30 s, and takes it again if it was lost', async (t) => {
    const driver = await createDriver()
    await send(driver, taking('one:1:0', place('alice', 1)))
    const renewed = [named('alice', 'one:1:0')]
    await send(driver, callOf({ renewed, time: start + 20_000 }))
    t.equal(await countPlaces(driver, 'alice', start + 49_999), 1)
    t.equal(await countPlaces(driver, 'alice', start + 50_000), 0)
    await send(driver, callOf({ renewed, time: start + 60_000 }))
    t.equal(await countPlaces(driver, 'alice', start + 60_000), 1, 'it had ended')
    await server.losePlaces()
    await send(driver, callOf({ renewed, time: start + 60_000 }))
    t.equal(await countPlaces(driver, 'alice', start + 60_000), 1, 'it was lost')
  })

  t.test('a place that had ended or was lost is renewed before requests are decided', async (t) => {
    const driver = await createDriver()
    await send(driver, callOf({ renewed: [named('alice', 'one:1:0')] }))
    const ended = start + 30_000
    await send(driver, callOf({ renewed: [named('alice', 'one:1:1')], time: ended - 1 }))
    const renewed = ['one:1:0', 'one:1:2'].map((name) => named('alice', name))
    const asked = taking('two:1:0', place('alice', 3), { renewed, time: ended })
    t.match(await decideOne(driver, asked), { admitted: false, count: 3 })
    t.equal(await countPlaces(driver, 'alice', ended + 29_998), 3)
    t.equal(await countPlaces(driver, 'alice', ended + 29_999), 2)
  })

  t.test('a call frees, renews and settles before it decides on its requests', async (t) => {
    const driver = await createDriver()
    await send(driver, taking('one:1:0', place('alice', 1)))
    const taken = taking('one:2:0', place('alice', 1), { freed: [named('alice', 'one:1:0')] })
    t.match(await decideOne(driver, taken), { admitted: true, count: 1 })
    const late = taking('one:3:0', place('bob', 1), { renewed: [named('bob', 'two:1:0')] })
    t.match(await decideOne(driver, late), { admitted: false, count: 1 })
    const estimate = demandOf('alice', { least: 5, most: 5, isEstimate: true })
    const { windowId, period } = await decideOne(driver, asking([estimate]))
    const settlements = [settlementOf(windowId, 5, new Map([[period, 5]]))]
    const next = asking([estimate], { settlements })
    t.match(await decideOne(driver, next), { admitted: true, count: 5, held: 5 })
  })

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
      '\ufffd',
      '%20',
      '"overflow"',
      'zoë',
      '🦊',
      '\n'
    ]
    for (const name of names) {
      const call = asking([demandOf(name, { counters: `quota ${name}` })])
      t.match(await decideOne(driver, call), { count: 1, overflow: false }, JSON.stringify(name))
      const ofQuota = await driver.list(`quota ${name}`, null, start, 0)
      t.match(ofQuota, { callers: [{ callerKey: name }] })
      const taken = await decideOne(driver, taking(`one:${name.length}:0`, place(name, 1)))
      t.match(taken, { admitted: true, count: 1 })
      t.match(await read(driver, place(name, 1)), { count: 1 })
    }
    const { callers } = await driver.list(streams, null, start, 0)
    t.same(callers.map(({ callerKey }) => callerKey).sort(), [...names].sort())
    const together = names.map((name) => demandOf(name, { counters: 'together' }))
    const { decided } = await send(driver, asking(together))
    t.same(
      decided.map(([only]) => only?.count),
      names.map(() => 1)
    )
    for (const name of names) await driver.forget('together', name, start)
    t.match(await driver.list('together', null, start, 0), { callers: [] })
  })

  t.test('settlements lower the window that counted, and no other', async (t) => {
    const driver = await createDriver()
    const estimate = demandOf('alice', { limit: 100, least: 10, most: 60, isEstimate: true })
    const first = await decideOne(driver, asking([estimate]))
    t.match(first, { count: 60, held: 60, granted: 60, period: 1 })
    t.match(await decideOne(driver, asking([estimate])), { count: 100, held: 100, granted: 40 })
    t.match(await decideOne(driver, asking([estimate])), { admitted: false, count: 100 })
    const { windowId } = first
    const settlement = settlementOf(windowId, 15, new Map([[first.period, 60]]))
    const settlements: Settlement[] = [
      settlement,
      { ...settlement, windowId: windowId + 1 },
      { ...settlement, row: overflowRow },
      { ...settlement, row: 'nobody' },
      { ...settlement, counters: 'another' }
    ]
    await send(driver, callOf({ settlements }))
    t.match(await read(driver, estimate), { count: 85, held: 40 })
    t.same(await server.callers(), ['default alice'], 'and insert nothing')
  })

  t.test('a settlement that the server gets twice makes no count negative', async (t) => {
    const driver = await createDriver()
    const estimate = demandOf('alice', { limit: 100, least: 3, most: 3, isEstimate: true })
    const { windowId, period } = await decideOne(driver, asking([estimate]))
    const settlements = [settlementOf(windowId, 2, new Map([[period, 3]]))]
    for (const count of [1, 0]) {
      await send(driver, callOf({ settlements }))
      t.match(await read(driver, estimate), { count, held: 0 })
    }
  })

  t.test('a settlement of what two periods held lowers the count once', async (t) => {
    const driver = await createDriver()
    const estimate = demandOf('alice', { limit: 100, most: 40, isEstimate: true, window: 1e9 })
    const second = 2 * periodLength
    const { windowId } = await decideOne(driver, asking([estimate], { time: second - 1 }))
    await send(driver, asking([estimate], { time: second }))
    const settlement = settlementOf(windowId, 30, new Map([[1, 40], [2, 40]]))
    await send(driver, callOf({ time: second, settlements: [settlement] }))
    t.match(await read(driver, estimate, second), { count: 50, held: 0 })
  })

  t.test('what was admitted is held in its period of ten minutes and the next', async (t) => {
    const driver = await createDriver()
    const estimate = demandOf('alice', { limit: 100, most: 10, isEstimate: true, window: 1e9 })
    for (const [time, held] of [
      [start, 10],
      [2 * periodLength - 1, 20],
      [2 * periodLength, 30],
      [3 * periodLength, 20],
      [5 * periodLength, 10]
    ] as const) {
      t.match(await decideOne(driver, asking([estimate], { time })), { held }, `at ${time}`)
    }
    t.match(await read(driver, estimate, 6 * periodLength), { count: 50, held: 10 })
    t.match(await read(driver, estimate, 7 * periodLength), { count: 50, held: 0 })
  })

  t.test('several settlements of a window in a call lower it by their sum', async (t) => {
    const driver = await createDriver()
    const estimate = demandOf('alice', { limit: 100, most: 40, isEstimate: true })
    const { windowId, period } = await decideOne(driver, asking([estimate]))
    await decideOne(driver, asking([estimate]))
    const settlements = [30, 25].map((less) =>
      settlementOf(windowId, less, new Map([[period, 40]]))
    )
    await send(driver, callOf({ settlements }))
    t.match(await read(driver, estimate), { count: 25, held: 0 })
  })

  t.test('a settlement with a name is applied once, while the window lasts', async (t) => {
    const driver = await createDriver()
    const estimate = demandOf('alice', { limit: 100, most: 40, isEstimate: true })
    const { windowId } = await decideOne(driver, asking([estimate]))
    const named = (once: string, window = windowId): Settlement => ({
      ...settlementOf(window, 10, new Map()),
      once
    })
    const settle = async (...settlements: Settlement[]) => {
      const { applied } = await send(driver, callOf({ settlements }))
      return applied
    }
    t.same(await settle(named('one'), settlementOf(windowId, 1, new Map()), named('two')), [
      true,
      true,
      true
    ])
    t.same(await settle(named('one'), named('two'), named('three')), [false, false, true])
    t.match(await read(driver, estimate), { count: 9 })
    t.same(await settle(named('four', windowId + 1)), [false], 'another window')
    t.same(await settle(named('four')), [true], 'of which the name is not remembered')
  })

  t.test('a demand that can use nothing has room below the limit, and none at it', async (t) => {
    const driver = await createDriver()
    const demand = demandOf('alice', { limit: 3, least: 0, most: 2 })
    t.match(await decideOne(driver, asking([demand])), { admitted: true, granted: 2, count: 2 })
    t.match(await decideOne(driver, asking([demand])), { admitted: true, granted: 1, count: 3 })
    t.match(await decideOne(driver, asking([demand])), { admitted: false, granted: 0, count: 3 })
  })

  t.test('demands of one unit are granted alike', async (t) => {
    const driver = await createDriver()
    const range = { unit: 'tokens', least: 1, most: 50, limit: 100 }
    const demands = [
      demandOf('alice', { ...range, counters: 'user' }),
      demandOf('alice', { ...range, counters: 'organisation', limit: 30 }),
      demandOf('alice', { ...range, counters: 'least', least: 40 }),
      demandOf('alice', { ...range, counters: 'fixed', least: 50 }),
      demandOf('alice', { ...range, counters: 'cents', unit: 'cents' }),
      demandOf('alice', { ...range, counters: 'any text', unit: '\0"\\' })
    ]
    const { decided: [ofRequest = []] } = await send(
      driver,
      callOf({ requests: [{ demands, place: 'one:1:0' }] })
    )
    t.same(ofRequest.map(({ granted }) => granted), [30, 30, 40, 50, 50, 50])
    t.same(ofRequest.map(({ count }) => count), [30, 30, 40, 50, 50, 50])
  })

  t.test('standings are read after the requests of their call, and change nothing', async (t) => {
    const driver = await createDriver()
    const standings = [demandOf('alice'), demandOf('bob'), place('alice', 1), place('bob', 1)]
    const call = asking([demandOf('alice'), place('alice', 2)], { standings })
    t.match((await send(driver, call)).standings, [
      { count: 1, windowRemaining: 60_000, overflow: false },
      null,
      { count: 1, held: 1, windowRemaining: null },
      { count: 0 }
    ])
    t.same(await server.callers(), ['default alice', 'streams.concurrent alice'])
    t.equal(await read(driver, demandOf('alice'), start + 60_000), null)
  })

  t.test('a clock that is set back lengthens a window by no more than the step', async (t) => {
    const driver = await createDriver()
    for (const [time, remaining] of [
      [start, 60_000],
      [start + 10_000, 50_000],
      [start, 60_000],
      [start - 20_000, 60_000],
      [start - 10_000, 50_000],
      [start + 39_999, 1],
      [start + 40_000, 60_000]
    ] as const) {
      const demand = demandOf('alice', { limit: 1 })
      const { windowRemaining } = await decideOne(driver, asking([demand], { time }))
      t.equal(windowRemaining, remaining, `at ${time - start}`)
      t.match(await read(driver, demand, time), { windowRemaining })
    }
  })

  t.test('a clock that is set back keeps a place for 30 s, and frees none', async (t) => {
    const driver = await createDriver()
    await send(driver, taking('one:1:0', place('alice', 1)))
    const ask = (time: number) =>
      decideOne(driver, taking(`two:${time}:0`, place('alice', 1), { time }))
    const before = start - 900_000
    for (const time of [before, before + 29_999]) {
      t.match(await ask(time), { admitted: false, count: 1 })
    }
    t.match(await ask(before + 30_000), { admitted: true, count: 1 })
  })

  t.test('a window of a time zone is over when the next one has begun', async (t) => {
    const driver = await createDriver()
    const day = 86_400_000
    const onDay = (number: number) =>
      demandOf('alice', { window: 90_000_000, start: number * day, end: (number + 1) * day })
    t.match(await decideOne(driver, asking([onDay(5)])), { count: 1, end: 6 * day })
    t.match(await decideOne(driver, asking([onDay(5)])), { count: 2, end: 6 * day })
    // A process of which the clock is a moment behind.
    const before = demandOf('alice', { ...onDay(5), start: 6 * day - 1, end: 7 * day - 1 })
    t.match(await decideOne(driver, asking([before])), { count: 3, end: 6 * day })
    t.match(await driver.list('default', null, start, 6 * day - 1), {
      callers: [{ count: 3, end: 6 * day, windowRemaining: null }]
    })
    t.same(await driver.list('default', null, start, 6 * day), { callers: [], cursor: null })
    t.equal(await read(driver, onDay(6)), null)
    t.match(await decideOne(driver, asking([onDay(6)])), { count: 1, end: 7 * day })
  })

  t.test('a cap bounds the counters, and one counter limits the callers beyond', async (t) => {
    const driver = await createDriver(2)
    const callers = ['alice', 'bob', 'carol', 'dave', 'alice', 'carol', 'erin']
    const call = asking(callers.map((caller) => demandOf(caller, { limit: 2 })))
    const { decided } = await send(driver, call)
    const found = decided.map(([only]) => [only?.admitted, only?.count, only?.overflow])
    t.same(found, [
      [true, 1, false],
      [true, 1, false],
      [true, 1, true],
      [true, 2, true],
      [true, 2, false],
      [false, 2, true],
      [false, 2, true]
    ])
    t.match(await read(driver, demandOf('frank')), { count: 2, overflow: true })
    t.match(await decideOne(driver, asking([demandOf('alice', { counters: 'other' })])), {
      count: 1,
      overflow: false
    })
    t.same(await driver.inspect('default', start), { trackedCallers: 2 })
    await driver.forget('default', 'bob', start)
    t.equal(await read(driver, demandOf('frank')), null, 'a counter of its own')
    t.match(await decideOne(driver, asking([demandOf('frank')])), { count: 1, overflow: false })
  })

  t.test(
    'list has the callers with counters of their own, and not the overflow counter',
    async (t) => {
      const driver = await createDriver(1)
      await send(driver, asking([demandOf('alice')]))
      t.match(await decideOne(driver, asking([demandOf('bob')])), { count: 1, overflow: true })
      t.same(await driver.list('default', null, start, 0), {
        callers: [{ callerKey: 'alice', count: 1, held: 0, windowRemaining: 60_000 }],
        cursor: null
      })
      await driver.forget('default', 'alice', start)
      t.same(await driver.list('default', null, start, 0), { callers: [], cursor: null })
    }
  )

  t.test('to forget a caller removes its counter in one quota, and no other', async (t) => {
    const driver = await createDriver()
    const ofAlice = [demandOf('alice'), demandOf('alice', { counters: 'other' })]
    await send(driver, asking([...ofAlice, demandOf('bob')]))
    await driver.forget('default', 'alice', start)
    t.same(await server.callers(), ['default bob', 'other alice'])
  })

  t.test('callers whose windows have been over for a minute count in no cap', async (t) => {
    const driver = await createDriver(1)
    const ask = (callerKey: string, time: number) =>
      decideOne(driver, asking([demandOf(callerKey)], { time }))
    await ask('alice', start)
    t.match(await ask('bob', start), { overflow: true })
    const later = start + 120_000
    t.match(await ask('carol', later), { overflow: false })
    t.match(await ask('dave', later), { overflow: true, count: 1 })
    t.same(await driver.inspect('default', later), { trackedCallers: 1 })
  })

  t.test('what the callers beyond the cap counted is settled in their counter', async (t) => {
    const driver = await createDriver(1)
    const estimate = (caller: string) =>
      demandOf(caller, { limit: 100, most: 40, isEstimate: true })
    await decideOne(driver, asking([estimate('bob')]))
    const { windowId, period } = await decideOne(driver, asking([estimate('alice')]))
    const settlement = settlementOf(windowId, 30, new Map([[period, 40]]))
    await send(driver, callOf({ settlements: [settlement, { ...settlement, row: overflowRow }] }))
    t.match(await read(driver, estimate('carol')), { count: 10, held: 0, overflow: true })
    t.match(await read(driver, estimate('bob')), { count: 40, held: 40 })
  })

  t.test(
    'no name of a caller or of counters meets what the store keeps beside the callers',
    async (t) => {
      const driver = await createDriver(3)
      const internals = ['overflow', '"overflow"', 'places', 'caller', '']
      const ask = (counters: string, caller: string) =>
        decideOne(driver, asking([demandOf(caller, { counters })]))
      for (const caller of ['a', 'b', 'c']) await ask('default', caller)
      t.match(await ask('default', 'd'), { overflow: true, count: 1 })
      for (const caller of internals) await driver.forget('default', caller, start)
      t.same(await driver.inspect('default', start), { trackedCallers: 3 })
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
}
