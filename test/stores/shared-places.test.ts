// How a process takes, renews and frees places on a server.
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import type { Call, Reply } from '../../lib/store/shared/driver.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import type { Acquisition } from '../../lib/store/store.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'
import { DriverServer } from '../support/driver-server.js'
import { matchExactly } from '../support/match-exactly.js'
import { virtualPerformance } from '../support/time.js'
import { until } from '../support/until.js'

const renewalInterval = 10_000

/** Frees a place. */
function free (store: SharedStore, { receipt }: Acquisition) {
  return store.settle(receipt, { count: 1, held: 1 })
}

/** A server, and stores of processes on it whose calls a test intercepts. */
function start (t: Test) {
  const clock = virtualPerformance(t)
  clock.advance(1_000_000)
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  const server = new DriverServer(clock.now)
  const create = (decide: (call: Call) => Promise<Reply> = (call) => server.decide(call)) => {
    const driver = new DriverServer(clock.now)
    driver.decide = decide
    return new SharedStore({ clock: clock.now, rememberRejections: false }, driver)
  }
  const count = (caller = 'alice') => server.places(demand(caller, place())).length
  return {
    clock,
    server,
    create,
    count,
    /** Makes time pass, with the timers of all processes. */
    async pass (milliseconds: number) {
      for (let left = milliseconds; left > 0; left -= 100) {
        clock.advance(Math.min(left, 100))
        mock.timers.tick(Math.min(left, 100))
        // What the timers send arrives in a few turns of the event loop.
        for (let turns = 0; turns < 5; turns++) await new Promise(setImmediate)
      }
    }
  }
}

t.test('a process renews the places that it holds until they are free', async (t) => {
  const { create, count, pass } = start(t)
  const [store, other] = [create(), create()]
  const entries = [
    await acquireOne(store, 'alice', place(3)),
    await acquireOne(store, 'alice', place(3)),
    await acquireOne(other, 'alice', place(3))
  ]
  t.match(await acquireOne(other, 'alice', place(3)), { admitted: false, granted: 0, count: 3 })
  for (let renewals = 0; renewals < 20; renewals++) {
    await pass(renewalInterval)
    t.equal(count(), 3)
  }
  for (const [index, entry] of entries.entries()) {
    const owner = index < 2 ? store : other
    await free(owner, entry)
    await free(owner, entry)
    t.equal(count(), 2 - index)
  }
})

// Such a place once stayed taken until its end, so that of several streams that ended together,
// most kept theirs for half a minute.
const during = {
  'another one is being settled': (store: SharedStore, another: Acquisition) =>
    free(store, another),
  'a request is being rejected': async (store: SharedStore, another: Acquisition) => {
    await store.acquire([demand('alice', place(2))])
    await free(store, another)
  }
}
for (const [what, call] of Object.entries(during)) {
  t.test(`a place that is settled while ${what} is free`, async (t) => {
    const { server, create, count } = start(t)
    let settle = (): Promise<unknown> | undefined => undefined
    let settled: Promise<unknown> | undefined
    const store = create((call) => {
      settled ??= settle()
      return server.decide(call)
    })
    const first = await acquireOne(store, 'alice', place(2))
    const second = await acquireOne(store, 'alice', place(2))
    settle = () => free(store, second)
    await call(store, first)
    await settled
    t.equal(count(), 0)
  })
}

t.test('a rejected request holds no place, though there was room for one', async (t) => {
  const { server, create, count, pass } = start(t)
  const renewed: number[] = []
  const store = create((call) => {
    renewed.push(call.renewed.length)
    return server.decide(call)
  })
  await acquireOne(store, 'alice', { limit: 1 })
  const rejected = await store.acquire([demand('alice', place(1)), demand('alice', { limit: 1 })])
  matchExactly(t, rejected, [{ admitted: true, granted: 0 }, { admitted: false }])
  await pass(renewalInterval)
  await acquireOne(store, 'bob', { limit: 1 })
  t.same([count(), renewed], [0, [0, 0, 0]])
})

t.test('the 10 s after which a place is renewed begin when its call is sent, not with the reply',
  async (t) => {
    const { clock, server, create, pass } = start(t)
    const renewedAt: number[] = []
    const store = create(async (call) => {
      if (call.renewed.length > 0) renewedAt.push(clock.now())
      const reply = await server.decide(call)
      clock.advance(2_000)
      return reply
    })
    const takenAt = clock.now()
    await acquireOne(store, 'alice', place())
    while (clock.now() < takenAt + 30_000) await pass(1_000)
    t.same(renewedAt.map((time) => Math.round((time - takenAt) / 1_000)), [10, 20])
  }
)

t.test('a store that holds places does not keep its process alive', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  const before = timers()
  const store = new SharedStore({}, new DriverServer(() => 0))
  const taken = await acquireOne(store, 'alice', place())
  await new Promise(setImmediate)
  t.equal(timers(), before)
  await free(store, taken)
})

t.test('500 places are renewed in calls of as many as a call has demands', async (t) => {
  const { server, create, pass } = start(t)
  const renewed: number[] = []
  const store = create((call) => {
    if (call.renewed.length > 0) renewed.push(call.renewed.length)
    return server.decide(call)
  })
  await Promise.all(
    Array.from({ length: 500 }, (_, caller) => acquireOne(store, `caller ${caller}`, place(1)))
  )
  await pass(renewalInterval)
  t.same(renewed, [384, 116])
})

t.test('a place is renewed every 10 s from the call that took it, however many calls are sent',
  async (t) => {
    const { server, create, pass } = start(t)
    const renewed: string[] = []
    let time = 0
    const store = create((call) => {
      for (const { callerKey } of call.renewed) renewed.push(`${callerKey} at ${time}`)
      return server.decide(call)
    })
    await acquireOne(store, 'alice', place())
    for (time = 1; time <= 25; time++) {
      await pass(1_000)
      await acquireOne(store, 'other', estimate())
      if (time === 3) await acquireOne(store, 'bob', place())
      if (time === 14) await free(store, await acquireOne(store, 'carol', place()))
    }
    t.same(renewed, ['alice at 10', 'bob at 13', 'alice at 20', 'bob at 23'])
  }
)

t.test('a process whose stall is shorter than a place lasts keeps its places', async (t) => {
  const { clock, create, count } = start(t)
  const [stalled, other] = [create(), create()]
  await acquireOne(stalled, 'alice', place(1))
  clock.advance(29_000)
  t.match(await acquireOne(other, 'alice', place(1)), { admitted: false, count: 1 })
  t.match(await acquireOne(stalled, 'bob', place(1)), { admitted: true })
  clock.advance(29_000)
  t.equal(count(), 1, 'its next call has renewed the place, whether or not a timer was late')
})

t.test('a clock that fails fails the requests that wait, and no later ones', async (t) => {
  const { server } = start(t)
  let readings = 0
  const clock = () => {
    readings += 1
    if (readings === 3) throw new Error('no clock')
    return 1_000_000
  }
  const store = new SharedStore({ clock }, server)
  await t.rejects(acquireOne(store, 'alice'), /no clock/)
  t.match(await acquireOne(store, 'alice'), { admitted: true, count: 1 })
})

t.test('a place that may not have been freed is freed for 30 s from then on, and no longer',
  async (t) => {
    const { server, create, pass } = start(t)
    let isDown = false
    const freed: number[] = []
    const store = create(async (call) => {
      freed.push(call.freed.length)
      if (isDown) throw new Error('down')
      return await server.decide(call)
    })
    const entry = await acquireOne(store, 'alice', place())
    isDown = true
    await t.rejects(free(store, entry), /down/)
    for (let second = 1; second < 40; second++) {
      await pass(1_000)
    }
    t.same(freed, [0, ...Array.from({ length: 30 }, () => 1)])
  }
)

t.test('clearCounters forgets places, and settling them then changes nothing', async (t) => {
  const { server, create, count, pass } = start(t)
  const store = create()
  const entry = await acquireOne(store, 'alice', place(1))
  await server.clear()
  await store.clearCounters()
  await pass(renewalInterval)
  t.equal(count(), 0)
  await free(store, entry)
  t.equal(count(), 0)
})

const removals = {
  'is freed': (store: SharedStore, entry: Acquisition) => free(store, entry),
  'is removed by clearCounters': (store: SharedStore) => store.clearCounters()
}
for (const [isRemoved, remove] of Object.entries(removals)) {
  t.test(`a place that ${isRemoved} while its renewal is on its way is not renewed again`,
    async (t) => {
      const { server, create, count, pass } = start(t)
      let reply: (() => void) | undefined
      const store = create(async (call) => {
        const decided = await server.decide(call)
        if (call.renewed.length === 0) return decided
        return await new Promise((resolve) => {
          reply = () => {
            resolve(decided)
          }
        })
      })
      const entry = await acquireOne(store, 'alice', place())
      await pass(renewalInterval + 1_000)
      await until('the renewal is on its way', () => reply !== undefined)
      const removed = remove(store, entry)
      reply?.()
      await removed
      await server.clear()
      for (let second = 0; second < 12; second++) await pass(1_000)
      t.equal(count(), 0)
    }
  )
}
