// What a store on a server promises, over a server in this process. call-queue.test.ts has the
// order of what is sent, sender.test.ts when it is sent.
import { mock } from 'node:test'
import t from 'tap'
import { callerKey, InsuredQuotaStore, localAuthentication } from '../../lib/index.js'
import type { Call, Connection } from '../../lib/store/shared/driver.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import type { Acquisition } from '../../lib/store/store.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'
import { DriverServer } from '../support/driver-server.js'
import { matchExactly } from '../support/match-exactly.js'
import { setWallClock } from '../support/time.js'
import { until } from '../support/until.js'

const key = String(callerKey(localAuthentication('alice')))

function createStore (options = {}) {
  const server = new DriverServer(() => performance.now())
  const calls: Call[] = []
  const decide = server.decide.bind(server)
  server.decide = async (call) => {
    calls.push(call)
    return await decide(call)
  }
  return { server, calls, store: new SharedStore(options, server) }
}

function settle (store: SharedStore, { receipt, granted }: Acquisition, used = 0) {
  return store.settle(receipt, { count: granted - used, held: granted })
}

t.test('what 500 callers give back counts before the requests that follow at once', async (t) => {
  for (const more of [place(1), estimate(1, { limit: 1 })]) {
    const { store } = createStore()
    const callers = Array.from({ length: 500 }, (_, index) => `caller ${index}`)
    const acquired = await Promise.all(callers.map((caller) => acquireOne(store, caller, more)))
    // All are rejected, and that is remembered.
    await Promise.all(callers.map((caller) => acquireOne(store, caller, more)))
    const settled = acquired.map((each) => settle(store, each))
    const again = await Promise.all(
      callers.slice(450).map((caller) => acquireOne(store, caller, more))
    )
    t.equal(again.filter(({ admitted }) => admitted).length, 50)
    await Promise.all(settled)
  }
})

t.test('a server that answers loses no settlement, however many come together', async (t) => {
  const { server, store } = createStore()
  const unlimited = estimate(3, { limit: Number.MAX_SAFE_INTEGER })
  // More than can wait while a server fails.
  const callers = Array.from({ length: 10_100 }, (_, index) => `caller ${index}`)
  const acquired: Acquisition[] = []
  for (let first = 0; first < callers.length; first += 500) {
    const some = callers.slice(first, first + 500)
    acquired.push(...await Promise.all(some.map((each) => acquireOne(store, each, unlimited))))
  }
  const results = await Promise.allSettled(acquired.map((each) => settle(store, each, 1)))
  t.equal(results.filter(({ status }) => status === 'rejected').length, 0)
  const wrong = callers.filter((caller) => {
    const counted = server.count(demand(caller, unlimited))
    return counted?.count !== 1 || counted.held !== 0
  })
  t.same(wrong, [])
})

t.test('a store that is made of others settles with the receipts of another process', async (t) => {
  const { server, store } = createStore()
  const other = new SharedStore({}, server)
  const counted = await acquireOne(store, 'alice', estimate(5))
  const taken = await acquireOne(store, 'alice', place(1))
  for (const each of [counted, taken]) {
    t.type(each.receipt, 'string')
    await settle(other, each)
  }
  t.match(server.count(demand('alice', estimate())), { count: 0, held: 0 })
  t.match(server.count(demand('alice', place())), { count: 0 })
})

t.test('there is a receipt only where something was counted', async (t) => {
  const { store } = createStore()
  await acquireOne(store, 'alice', { limit: 1 })
  const rejected = await store.acquire([demand('alice', { limit: 1 }), demand('alice', estimate())])
  t.same(rejected.map((each) => each?.receipt), [undefined, undefined])
})

t.test('what is no receipt is a TypeError, and so are other amounts and texts', async (t) => {
  const { store } = createStore()
  const { receipt } = await acquireOne(store, 'alice')
  const taken = await acquireOne(store, 'alice', place())
  const less = { count: 1, held: 0 }
  const receipts = [
    undefined, null, 5, {}, '', 'x', 'window', 'place a b', 'place a b c d', 'place \\x b c',
    'window a b 1 2', 'window a b 1 2 3 d e', 'window a b -1 2 3', 'window a b 1 2 0.5',
    'window a b 9007199254740992 2 3', 'window a b  2 3', 'window "a b 1 2 3', 'place a\n b c',
    'place a b ', 'place a b c\n', 'window a b\n 1 2 3', 'window a b 1 2 3 "d', 'window a b 1e3 2 3'
  ]
  for (const each of receipts) {
    await t.rejects(store.settle(each, less), { name: 'TypeError', message: /a receipt must be/ })
  }
  await t.rejects(store.settle(receipt, { count: -1, held: 0 }), { name: 'TypeError' })
  await t.rejects(store.settle(receipt, { count: 1, held: 0.5 }), { name: 'TypeError' })
  await t.rejects(async () => Reflect.apply(store.settle, store, [receipt, less, 5]), {
    name: 'TypeError'
  })
  await t.rejects(store.settle(taken.receipt, less, 'text'), { name: 'TypeError' })
})

t.test('settling by nothing asks no server', async (t) => {
  const { calls, store } = createStore()
  const receipts = [
    await acquireOne(store, 'alice'),
    await acquireOne(store, 'alice', place())
  ].map((acquired) => acquired.receipt)
  const before = calls.length
  for (const receipt of receipts) await store.settle(receipt, { count: 0, held: 0 })
  t.equal(calls.length, before)
})

t.test('with a text, a window is settled once, and says whether that was the first', async (t) => {
  const { server, store } = createStore()
  const { receipt } = await acquireOne(store, 'alice', estimate(5))
  const less = { count: 2, held: 5 }
  t.equal(await store.settle(receipt, less, 'text'), true)
  t.equal(await store.settle(receipt, less, 'text'), false)
  t.match(server.count(demand('alice', estimate())), { count: 3, held: 0 })
  t.equal(await store.settle(receipt, { count: 0, held: 0 }, 'another'), true)
  await server.clear()
  t.equal(await store.settle(receipt, less, 'too late'), false)
  const next = await acquireOne(store, 'alice', estimate(5))
  t.equal(await store.settle(next.receipt, less, 'text'), true, 'of the next window')
})

t.test('a text that was lost on its way can be tried again', async (t) => {
  const { server, store } = createStore()
  const { receipt } = await acquireOne(store, 'alice', estimate(5))
  const { decide } = server
  server.decide = async (call) => {
    await decide(call)
    throw new Error('the connection was lost')
  }
  const less = { count: 2, held: 5 }
  await t.rejects(store.settle(receipt, less, 'text'), { message: 'the connection was lost' })
  server.decide = decide
  // Shows that the server works again.
  await acquireOne(store, 'bob')
  t.equal(await store.settle(receipt, less, 'text'), false, 'it was applied')
  t.match(server.count(demand('alice', estimate())), { count: 3, held: 0 })
})

t.test('only a driver with a journal gets references, and joins nothing', async (t) => {
  for (const hasJournal of [true, false]) {
    const { server, calls } = createStore()
    server.hasJournal = hasJournal
    const store = new SharedStore({}, server)
    const acquired = await Promise.all(
      ['one', 'two'].map((reference) =>
        acquireOne(store, 'alice', estimate(2, { reference }))
      )
    )
    await Promise.all(acquired.map((each) => settle(store, each, 1)))
    const settlements = calls.flatMap((call) => call.settlements)
    t.same(
      settlements.map(({ reference, lessCount }) => [reference, lessCount]),
      hasJournal ? [['one', 1], ['two', 1]] : [[null, 2]]
    )
  }
})

t.test('equal standings are one, and share a call with what else is asked', async (t) => {
  const { calls, store } = createStore()
  await acquireOne(store, 'alice')
  const before = calls.length
  const standings = Array.from({ length: 2_000 }, () => store.peek(demand('alice')))
  const asked = acquireOne(store, 'bob')
  t.same(new Set((await Promise.all(standings)).map((each) => each?.count)), new Set([1]))
  t.match(await asked, { admitted: true })
  t.equal(calls.length - before, 1)
  t.equal(calls.at(-1)?.standings.length, 1)
})

t.test('a route for standings slows no request down', async (t) => {
  const { calls, store } = createStore()
  const standings = Array.from({ length: 1_000 }, (_, index) => store.peek(demand(`of ${index}`)))
  await acquireOne(store, 'bob')
  t.equal(calls.length, 1)
  await Promise.all(standings)
})

t.test('a stall of the event loop of 2.6 s is no failure', async (t) => {
  const { store } = createStore()
  await acquireOne(store, 'alice')
  const asked = acquireOne(store, 'alice')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_600)
  t.match(await asked, { admitted: true, count: 2 })
})

t.test('a client that is not ready has lost nothing: it is sent when the client is', async (t) => {
  const { server, store } = createStore()
  const limit = 100
  const counted = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      acquireOne(store, `caller ${index}`, estimate(100, { limit }))
    )
  )
  let isConnected = false
  const connect: () => Connection | Promise<Connection> = server.connect.bind(server)
  server.connect = () => (isConnected ? connect() : Promise.reject(new Error('refused')))
  const settled = counted.map((each) => settle(store, each, 1))
  await t.rejects(acquireOne(store, 'bob'), { message: 'refused' })
  isConnected = true
  // Otherwise, the next attempt follows after a second.
  await acquireOne(store, 'bob')
  await Promise.all(settled)
  for (let index = 0; index < 20; index++) {
    t.match(server.count(demand(`caller ${index}`, estimate())), { count: 1, held: 0 })
  }
})

t.test('one write of a thousand requests makes no insured store leave its primary', async (t) => {
  const { server, calls, store } = createStore()
  const { decide } = server
  server.decide = async (call) => {
    await new Promise((resolve) => setTimeout(resolve, 60))
    return await decide(call)
  }
  const insured = new InsuredQuotaStore({ primary: store })
  const acquired = await Promise.all(
    Array.from({ length: 1_000 }, () => insured.acquire([demand('alice', { limit: 20 })]))
  )
  t.equal(insured.state, 'primary')
  t.equal(acquired.filter(([only]) => only?.admitted).length, 20)
  t.equal(insured.decisions.fallback, 0)
  t.ok(calls.length <= 2, 'those that wait are rejected by what the first call has shown')
})

t.test('what is asked without a decision fails after 5 s', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  const { server, store } = createStore()
  const silent = () => new Promise<never>(() => {})
  Object.assign(server, { list: silent, inspect: silent, forget: silent })
  const failed: unknown[] = []
  const asked = [
    () => store.list('default'),
    () => store.inspect('default'),
    () => store.forget('default', key)
  ]
  for (const ask of asked) ask().catch((error: unknown) => failed.push(error))
  // The time limit is measured in ten parts.
  for (let part = 0; part < 10; part++) {
    t.same(failed, [])
    mock.timers.tick(500)
  }
  await until('all have failed', () => failed.length === asked.length)
  const late = { code: 'FST_ERR_LLM_QUOTA_TIME_LIMIT', message: 'no response within 5000 ms' }
  matchExactly(t, failed, asked.map(() => late))
})

t.test('list asks with the date of the process, by which days of a time zone end', async (t) => {
  const date = setWallClock(t)('2026-11-25T12:00Z')
  const { server, store } = createStore({ clock: () => 0 })
  const dates: number[] = []
  const list: SharedStore['list'] = async () => ({ callers: [], cursor: null })
  Object.assign(server, {
    list: async (...given: unknown[]) => {
      dates.push(Number(given[3]))
      return await list('default')
    }
  })
  await store.list('default')
  t.same(dates, [date])
})

t.test('a caller is forgotten by its key and by nothing else', async (t) => {
  const { store } = createStore()
  await acquireOne(store, key)
  await t.rejects(store.forget('default', 'alice'), { name: 'TypeError' })
  await store.forget('default', key)
  t.equal(await store.peek(demand(key)), null)
})
