// The stores on servers remember rejections for a second, unless rememberRejections is false.
import t, { type Test } from 'tap'
import { SharedStore, type SharedQuotaStoreOptions } from '../../lib/store/shared/shared-store.js'
import { DriverServer } from '../support/driver-server.js'
import { matchExactly } from '../support/match-exactly.js'
import { acquireOne, demand, estimate, place } from '../support/told-store.js'
import { until } from '../support/until.js'
import { virtualPerformance } from '../support/virtual-performance.js'

const limit = 1

/** A store, how many calls its server has got, and another store on the same server. */
function createStore (t: Test, options: SharedQuotaStoreOptions = {}) {
  const clock = virtualPerformance(t)
  clock.advance(1_000_000)
  const server = new DriverServer(clock.now, options.maxTrackedCallers)
  const create = () => new SharedStore(options, 1, () => server)
  return { clock, server, store: create(), other: create() }
}

/** Whether the store answers without asking the server. */
const remembers = (store: SharedStore, caller: string, more = {}) =>
  !(store.acquire([demand(caller, { limit, ...more })]) instanceof Promise)

/** Sends requests of each caller with a limit of 1, the last of which is rejected by the server. */
async function exhaust (store: SharedStore, ...callers: string[]): Promise<void> {
  for (const caller of callers) {
    for (let request = 0; request < 2; request++) await acquireOne(store, caller, { limit })
  }
}

t.test('a rejection that is remembered again is no longer the oldest', async (t) => {
  const { server, other } = createStore(t)
  const store = new SharedStore({ maxTrackedCallers: 3 }, 1, () => server)
  await exhaust(store, 'alice', 'bob')
  await acquireOne(other, 'alice', { limit: 2 })
  t.match(await acquireOne(store, 'alice', { limit: 2 }), { admitted: false, count: 2 })
  await exhaust(store, 'carol', 'dave')
  t.equal(remembers(store, 'alice'), true)
  t.equal(remembers(store, 'bob'), false)
})

t.test('a flood over the limit costs the server one decision a second', async (t) => {
  const { clock, server, store } = createStore(t)
  await exhaust(store, 'alice')
  const before = server.calls
  for (let time = 0; time < 3_000; time += 10) {
    matchExactly(t, await store.acquire([demand('alice', { limit })]), [
      { admitted: false, count: 1, windowRemaining: 60_000 - time }
    ])
    clock.advance(10)
  }
  t.equal(server.calls - before, 2)
})

t.test(
  'a request is rejected from memory if it does not fit beside the count, with null for ' +
    'its other demands',
  async (t) => {
    const { server, store } = createStore(t)
    await acquireOne(store, 'alice', { limit: 10, least: 7, most: 7 })
    const four = { limit: 10, least: 4, most: 4 }
    t.match(await acquireOne(store, 'alice', four), { admitted: false, count: 7 })
    const before = server.calls
    t.same(store.acquire([demand('alice', estimate()), demand('alice', four)]), [
      null,
      {
        admitted: false,
        granted: 0,
        count: 7,
        held: 0,
        windowRemaining: 60_000,
        overflow: false,
        isRemembered: true
      }
    ])
    matchExactly(
      t,
      store.acquire([demand('alice', { limit: 7, least: 0, most: 0 })]),
      [{ admitted: false, count: 7 }],
      'also beside a lowered limit'
    )
    t.equal(server.calls, before)
    t.match(
      await acquireOne(store, 'alice', { limit: 10, least: 3, most: 3 }),
      { admitted: true, count: 10 },
      'a smaller one fits'
    )
    t.match(
      await acquireOne(store, 'alice', { limit: Number.MAX_SAFE_INTEGER, least: 5, most: 5 }),
      { count: 15 },
      'the greatest limit has room'
    )
  }
)

t.test('what a process knows of a caller rejects no other caller, in no other quota', async (t) => {
  const { store } = createStore(t)
  const one = place(1)
  await exhaust(store, 'b c')
  await acquireOne(store, 'b c', one)
  for (const [caller, more] of [['c', ' b'], ['b', ''], ['b c', ' b']] as const) {
    const [counters, streams] = [`default${more}`, `streams.concurrent${more}`]
    t.match(await acquireOne(store, caller, { counters, limit }), { admitted: true }, caller)
    t.match(await acquireOne(store, caller, { ...one, counters: streams }), { admitted: true })
  }
})

t.test('a settlement takes effect at once, also after a rejection that arrives before it ends',
  async (t) => {
    const { server, store } = createStore(t)
    const two = estimate(2, { limit: 2 })
    const held = await acquireOne(store, 'alice', two)
    const decide = server.decide.bind(server)
    let settled
    server.decide = async (call) => {
      const reply = await decide(call)
      settled ??= store.settle(held, 0)
      return reply
    }
    t.match(await acquireOne(store, 'alice', two), { admitted: false, count: 2 })
    await settled
    t.match(await acquireOne(store, 'alice', two), { admitted: true, count: 2 })
  }
)

t.test('a rejection from memory says what others count and hold, whatever its limit', async (t) => {
  const { store } = createStore(t)
  for (let taken = 0; taken < 3; taken++) await acquireOne(store, 'alice', place(3))
  for (const most of [1, 3]) {
    const rejection = await acquireOne(store, 'alice', place(most))
    t.match(rejection, { admitted: false, count: 3, held: 3, isRemembered: true })
  }
  await acquireOne(store, 'alice', estimate(2))
  await acquireOne(store, 'alice', { ...estimate(1), isEstimate: false })
  for (const isRemembered of [undefined, true]) {
    const rejection = await acquireOne(store, 'alice', estimate(3))
    t.match(rejection, { admitted: false, count: 3, held: 2, isRemembered })
  }
})

t.test('no rejection is remembered beyond the window, even if the reply was slow', async (t) => {
  for (const slowness of [0, 400]) {
    const { clock, server, store } = createStore(t)
    await acquireOne(store, 'alice', { limit })
    clock.advance(59_500)
    const decide = server.decide.bind(server)
    server.decide = async (call) => {
      const reply = await decide(call)
      clock.advance(slowness)
      return reply
    }
    t.match(await acquireOne(store, 'alice', { limit }), { admitted: false, windowRemaining: 500 })
    server.decide = decide
    clock.advance(499 - slowness)
    matchExactly(t, store.acquire([demand('alice', { limit })]), [{ windowRemaining: 1 }])
    clock.advance(1)
    t.match(await acquireOne(store, 'alice', { limit }), { admitted: true, count: 1 })
  }
})

t.test('a day is remembered until the next one begins, whenever it ends', async (t) => {
  const { store } = createStore(t)
  const day = { limit, window: 90_000_000, start: 1_000, end: 2_000 }
  for (let request = 0; request < 2; request++) await acquireOne(store, 'alice', day)
  matchExactly(t, store.acquire([demand('alice', day)]), [
    { admitted: false, count: 1, windowRemaining: null, end: 2_000, overflow: false }
  ])
  t.ok(remembers(store, 'alice', { ...day, start: 1_999, end: 2_999 }), 'of another time zone')
  t.notOk(remembers(store, 'alice', { ...day, start: 2_000, end: 3_000 }))
})

t.test('nothing is remembered if the option is false, or by the overflow counter', async (t) => {
  for (const options of [{ rememberRejections: false }, { maxTrackedCallers: 1 }]) {
    const { store } = createStore(t, options)
    await exhaust(store, 'alice', 'bob')
    t.notOk(remembers(store, 'bob'), Object.keys(options).join())
  }
})

t.test(
  'a process that holds the places of a caller up to the limit rejects without asking, unless ' +
    'rememberRejections is false',
  async (t) => {
    const { server, store } = createStore(t)
    const taken = await acquireOne(store, 'alice', place(1))
    const { calls } = server
    t.same(store.acquire([demand('alice'), demand('alice', place(1))]), [
      null,
      {
        admitted: false,
        granted: 0,
        count: 1,
        held: 1,
        windowRemaining: null,
        overflow: false,
        isRemembered: true
      }
    ])
    t.equal(server.calls, calls)
    const asking = new SharedStore({ rememberRejections: false }, 1, () => server)
    t.notOk(remembers(asking, 'alice', place(1)))
    await store.settle(taken, 0)
    t.match(await acquireOne(store, 'alice', place(1)), { admitted: true, count: 1 })
  }
)

t.test(
  'places of other processes are not remembered, since they can be free at once',
  async (t) => {
    const { store, other } = createStore(t)
    const taken = await acquireOne(store, 'alice', place(1))
    t.match(await acquireOne(other, 'alice', place(1)), { admitted: false, count: 1 })
    await store.settle(taken, 0)
    t.match(await acquireOne(other, 'alice', place(1)), { admitted: true, count: 1 })
  }
)

t.test('after clearCounters, no place that the process has held counts', async (t) => {
  const { store } = createStore(t)
  await acquireOne(store, 'alice', place(1))
  await store.clearCounters()
  t.match(await acquireOne(store, 'alice', place(1)), { admitted: true, count: 1 })
})

t.test('rejections are remembered for at most as many callers as can be tracked', async (t) => {
  const { server, store } = createStore(t, { maxTrackedCallers: 2 })
  await exhaust(store, 'alice', 'bob')
  await server.clear()
  await exhaust(store, 'carol')
  t.same(
    ['alice', 'bob', 'carol'].map((caller) => remembers(store, caller)),
    [false, true, true],
    'the oldest is evicted'
  )
})

t.test('what another process removes takes effect after a second at most', async (t) => {
  for (const remove of ['forget', 'clearCounters'] as const) {
    const { clock, store, other } = createStore(t)
    await exhaust(store, 'alice')
    await other[remove]('alice', 'default')
    clock.advance(999)
    t.ok(remembers(store, 'alice'), remove)
    clock.advance(1)
    t.match(await acquireOne(store, 'alice', { limit }), { admitted: true, count: 1 }, remove)
  }
})

for (const remove of ['forget', 'clearCounters'] as const) {
  t.test(`${remove} removes what is remembered, also what arrives before it ends`, async (t) => {
    const { server, store } = createStore(t)
    await exhaust(store, 'alice')
    const called = remove === 'forget' ? 'forget' : 'clear'
    const method = server[called]
    let go = (): void => {}
    Reflect.set(server, called, async (...given: unknown[]) => {
      await new Promise<void>((resolve) => {
        go = resolve
      })
      return Reflect.apply(method, server, given)
    })
    const removed = store[remove]('alice', 'default')
    // The server rejects it before it removes the counter.
    t.match(await acquireOne(store, 'alice', { limit }), { admitted: false })
    go()
    await removed
    t.match(await acquireOne(store, 'alice', { limit }), { admitted: true, count: 1 })
  })

  t.test(`a rejection that arrives after the end of ${remove} is not remembered`, async (t) => {
    const { server, store } = createStore(t)
    await acquireOne(store, 'alice', { limit })
    const decide = server.decide.bind(server)
    let arrive = (): void => {}
    server.decide = async (call) => {
      const reply = await decide(call)
      await new Promise<void>((resolve) => {
        arrive = resolve
      })
      return reply
    }
    const { calls } = server
    const rejection = acquireOne(store, 'alice', { limit })
    await until('the server has decided', () => server.calls > calls)
    server.decide = decide
    await store[remove]('alice', 'default')
    arrive()
    t.match(await rejection, { admitted: false })
    t.match(await acquireOne(store, 'alice', { limit }), { admitted: true, count: 1 })
  })
}
