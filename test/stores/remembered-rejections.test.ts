// The stores on servers remember rejections for a second, unless rememberRejections is false.
import t, { type Test } from 'tap'
import { callerKey, localAuthentication, MemoryQuotaStore } from '../../lib/index.js'
import { SharedStore, type SharedQuotaStoreOptions } from '../../lib/store/shared/shared-store.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'
import { DriverServer } from '../support/driver-server.js'
import { matchExactly } from '../support/match-exactly.js'
import { RemoteStore } from '../support/remote-store.js'
import { createServer } from '../support/server.js'
import { virtualPerformance } from '../support/time.js'
import { until } from '../support/until.js'

const limit = 1
const whole = { count: 1, held: 1 }
const alice = String(callerKey(localAuthentication('alice')))

/** A store, how many calls its server has got, and another store on the same server. */
function createStore (t: Test, options: SharedQuotaStoreOptions = {}, mostDemands = 384) {
  const clock = virtualPerformance(t)
  clock.advance(1_000_000)
  const server = new DriverServer(clock.now, options.maxTrackedCallers)
  server.mostDemands = mostDemands
  const create = () => new SharedStore(options, server)
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
      settled ??= store.settle(held.receipt, { count: 2, held: 2 })
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

t.test('nothing is remembered if the option is false', async (t) => {
  const { store } = createStore(t, { rememberRejections: false })
  await exhaust(store, 'alice')
  t.notOk(remembers(store, 'alice'))
})

t.test('what the overflow counter held is remembered of each caller, until it is settled',
  async (t) => {
    const { store } = createStore(t, { maxTrackedCallers: 1 })
    await acquireOne(store, 'alice', { limit })
    const { receipt } = await acquireOne(store, 'bob', { limit })
    for (const caller of ['bob', 'carol']) {
      t.match(await acquireOne(store, caller, { limit }), { admitted: false, overflow: true })
      matchExactly(t, store.acquire([demand(caller, { limit })]), [{ overflow: true }])
    }
    const more = await acquireOne(store, 'carol', { limit: limit + 1 })
    t.notOk(remembers(store, 'carol'), 'who was admitted since')
    t.ok(remembers(store, 'bob'))
    for (const each of [receipt, more.receipt]) await store.settle(each, { count: 1, held: 0 })
    t.match(await acquireOne(store, 'bob', { limit }), { admitted: true, overflow: true })
    t.notOk(remembers(store, 'dave'), 'who can have a counter of its own')
  }
)

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
    const asking = new SharedStore({ rememberRejections: false }, server)
    t.notOk(remembers(asking, 'alice', place(1)))
    await store.settle(taken.receipt, whole)
    t.match(await acquireOne(store, 'alice', place(1)), { admitted: true, count: 1 })
  }
)

t.test('a rejection for want of a place is remembered for 100 ms', async (t) => {
  const { clock, store, other } = createStore(t)
  const { receipt } = await acquireOne(store, 'alice', place(1))
  t.match(await acquireOne(other, 'alice', place(1)), { admitted: false, count: 1 })
  await store.settle(receipt, whole)
  clock.advance(99)
  t.match(await acquireOne(other, 'alice', place(1)), { admitted: false, isRemembered: true })
  clock.advance(1)
  t.match(await acquireOne(other, 'alice', place(1)), { admitted: true, count: 1 })
})

t.test('a rejection for want of a place is remembered until this process frees one', async (t) => {
  const { store, other } = createStore(t)
  await acquireOne(other, 'alice', place(2))
  const { receipt } = await acquireOne(store, 'alice', place(2))
  t.match(await acquireOne(store, 'alice', place(2)), { admitted: false, count: 2 })
  t.match(await acquireOne(store, 'alice', place(2)), { isRemembered: true })
  const freed = store.settle(receipt, whole)
  t.match(await acquireOne(store, 'alice', place(2)), { admitted: true, count: 2 })
  await freed
})

t.test('a demand that waits in a line asks the server past what is remembered', async (t) => {
  const { server, store } = createStore(t)
  await exhaust(store, 'alice')
  await server.forget('default', 'alice')
  t.match(await acquireOne(store, 'alice', { limit }), { admitted: false, isRemembered: true })
  t.match(await acquireOne(store, 'alice', { limit, isWaiting: true }), { admitted: true })
  await acquireOne(store, 'alice', place(1))
  const { calls } = server
  t.match(await acquireOne(store, 'alice', { ...place(1), isWaiting: true }), { admitted: false })
  t.equal(server.calls, calls + 1)
})

t.test('what the first call has shown rejects those who wait for the next one', async (t) => {
  const { server, store } = createStore(t, {}, 1)
  const asked = Array.from({ length: 50 }, () => acquireOne(store, 'alice', { limit }))
  const acquired = await Promise.all(asked)
  t.equal(acquired.filter(({ admitted }) => admitted).length, 1)
  t.equal(acquired.filter(({ isRemembered }) => isRemembered === true).length, 48)
  t.equal(server.calls, 2)
})

t.test('when what is remembered expires, one request asks and the others stay rejected',
  async (t) => {
    const { clock, server, store } = createStore(t)
    await exhaust(store, 'alice')
    clock.advance(1_000)
    const { calls } = server
    const asked = Array.from({ length: 50 }, () => store.acquire([demand('alice', { limit })]))
    t.equal(asked.filter((each) => each instanceof Promise).length, 1)
    await Promise.all(asked)
    t.equal(server.calls, calls + 1)
    t.ok(remembers(store, 'alice'), 'its answer is remembered')
  }
)

t.test('a caller whose rejection is remembered spares the other store of a request', async (t) => {
  const { store } = createStore(t)
  const other = new RemoteStore(new MemoryQuotaStore({ clock: () => 0 }))
  const { statuses } = await createServer({
    store,
    quotas: {
      person: { perMinute: { tokens: 100 }, cost: 100 },
      organisation: { perDay: { tokens: 9_000 }, cost: 100, store: other }
    }
  })
  // The first rejection is the server's, and what the other store has counted is given back.
  t.same(await statuses(2), [200, 429])
  await until('two are counted and settled', () => other.calls === 4)
  t.same(await statuses(20), Array(20).fill(429))
  await new Promise(setImmediate)
  t.equal(other.calls, 4)
})

t.test('a request that asks again and is rejected for another quota leaves the next one to ask',
  async (t) => {
    const { clock, store } = createStore(t, {}, 1)
    await exhaust(store, 'alice')
    clock.advance(1_000)
    const other = { counters: 'other', limit }
    const asked = [
      acquireOne(store, 'alice', other),
      acquireOne(store, 'alice', other),
      store.acquire([demand('alice', { limit }), demand('alice', other)])
    ]
    matchExactly(t, await asked[2], [null, { isRemembered: true }])
    await Promise.all(asked)
    t.notOk(remembers(store, 'alice'))
  }
)

t.test('after clearCounters, no place that the process has held counts', async (t) => {
  const { store } = createStore(t)
  await acquireOne(store, 'alice', place(1))
  await store.clearCounters()
  t.match(await acquireOne(store, 'alice', place(1)), { admitted: true, count: 1 })
})

t.test('10,000 rejections are remembered; the oldest is evicted', async (t) => {
  const { server, store } = createStore(t)
  server.decide = async ({ requests }) => ({
    period: 0,
    applied: [],
    decided: requests.map(({ demands }) =>
      demands.map(() => ({
        admitted: false,
        granted: 0,
        count: limit,
        held: 0,
        windowRemaining: 60_000,
        overflow: false,
        windowId: 1
      }))
    ),
    standings: []
  })
  const callers = Array.from({ length: 10_001 }, (_, index) => `caller ${index}`)
  for (let first = 0; first < callers.length; first += 300) {
    const some = callers.slice(first, first + 300)
    await Promise.all(some.map((caller) => acquireOne(store, caller, { limit })))
  }
  t.same(
    ['caller 0', 'caller 1', 'caller 10000'].map((caller) => remembers(store, caller)),
    [false, true, true]
  )
})

t.test('what another process removes takes effect after a second at most', async (t) => {
  for (const remove of ['forget', 'clearCounters'] as const) {
    const { clock, store, other } = createStore(t)
    await exhaust(store, alice)
    await other[remove]('default', alice)
    clock.advance(999)
    t.ok(remembers(store, alice), remove)
    clock.advance(1)
    t.match(await acquireOne(store, alice, { limit }), { admitted: true, count: 1 }, remove)
  }
})

for (const remove of ['forget', 'clearCounters'] as const) {
  t.test(`${remove} removes what is remembered, also what arrives before it ends`, async (t) => {
    const { server, store } = createStore(t)
    await exhaust(store, alice)
    const called = remove === 'forget' ? 'forget' : 'clear'
    const method = server[called]
    let go = (): void => {}
    Reflect.set(server, called, async (...given: unknown[]) => {
      await new Promise<void>((resolve) => {
        go = resolve
      })
      return Reflect.apply(method, server, given)
    })
    const removed = store[remove]('default', alice)
    // The server rejects it before it removes the counter.
    t.match(await acquireOne(store, alice, { limit }), { admitted: false })
    go()
    await removed
    t.match(await acquireOne(store, alice, { limit }), { admitted: true, count: 1 })
  })

  t.test(`a rejection that arrives after the end of ${remove} is not remembered`, async (t) => {
    const { server, store } = createStore(t)
    await acquireOne(store, alice, { limit })
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
    const rejection = acquireOne(store, alice, { limit })
    await until('the server has decided', () => server.calls > calls)
    server.decide = decide
    await store[remove]('default', alice)
    arrive()
    t.match(await rejection, { admitted: false })
    t.match(await acquireOne(store, alice, { limit }), { admitted: true, count: 1 })
  })
}
