// How a process takes, renews and frees places on a server. test/simulation/scenarios.test.ts has
// what becomes of them if a call is late, repeated or lost.
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import type { Call, Reply } from '../../lib/store/shared/driver.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import type { Acquisition } from '../../lib/store/store.js'
import { VirtualClock } from '../../lib/testing.js'
import { DriverServer } from '../support/driver-server.js'
import { acquireOne, demand, estimate, place } from '../support/told-store.js'
import { until } from '../support/until.js'
import { virtualPerformance } from '../support/virtual-performance.js'

const renewalInterval = 10_000

/** A server, and stores of processes on it whose calls a test intercepts. */
function start (t: Test) {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  const server = new DriverServer(clock.now)
  const create = (decide: (call: Call) => Promise<Reply> = (call) => server.decide(call)) => {
    const driver = new DriverServer(clock.now)
    driver.decide = decide
    return new SharedStore({ clock: clock.now, rememberRejections: false }, 1, () => driver)
  }
  const count = (caller = 'alice') => server.places(demand(caller, place())).length
  return {
    clock,
    server,
    create,
    count,
    /** Makes time pass, with the timers of all processes. */
    async pass (milliseconds: number) {
      clock.advance(milliseconds)
      mock.timers.tick(milliseconds)
      // What the timers send arrives in a few turns of the event loop.
      for (let turns = 0; turns < 10; turns++) await new Promise(setImmediate)
    }
  }
}

t.test('a process renews the places that it holds, and frees them once', async (t) => {
  const { server, create, count, pass } = start(t)
  let freed = 0
  const decide = async (call: Call) => {
    freed += call.freed.length
    return await server.decide(call)
  }
  const [store, other] = [create(decide), create(decide)]
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
    await owner.settle(entry, 0)
    await owner.settle(entry, 0)
    t.equal(count(), 2 - index)
    t.equal(freed, index + 1)
  }
})

t.test('a rejected request holds no place, though there was room for one', async (t) => {
  const { server, create, count, pass } = start(t)
  const renewed: number[] = []
  const store = create((call) => {
    renewed.push(call.renewed.length)
    return server.decide(call)
  })
  await acquireOne(store, 'alice', { limit: 1 })
  const rejected = await store.acquire([demand('alice', place(1)), demand('alice', { limit: 1 })])
  t.match(rejected, [{ admitted: true, granted: 0 }, { admitted: false }])
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
    t.same(renewedAt.map((time) => time - takenAt), [10_000, 20_000, 30_000])
  }
)

t.test('a store that holds places does not keep its process alive', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  const before = timers()
  const store = new SharedStore({}, 1, () => new DriverServer(() => 0))
  const taken = await acquireOne(store, 'alice', place())
  await new Promise(setImmediate)
  t.equal(timers(), before)
  await store.settle(taken, 0)
})

t.test('300 places are renewed in calls of 256', async (t) => {
  const { server, create, pass } = start(t)
  const renewed: number[] = []
  const store = create((call) => {
    if (call.renewed.length > 0) renewed.push(call.renewed.length)
    return server.decide(call)
  })
  await Promise.all(
    Array.from({ length: 300 }, (_, caller) => acquireOne(store, `caller ${caller}`, place(1)))
  )
  await pass(renewalInterval)
  t.same(renewed, [256, 44])
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
      if (time === 14) await store.settle(await acquireOne(store, 'carol', place()), 0)
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

/** A process whose places have ended in a stall, except that their number is more than 256. */
async function stallWith (t: Test, held: number) {
  const scene = start(t)
  let isDown = false
  const sent: number[] = []
  const store = scene.create(async (call) => {
    sent.push(call.requests.length)
    if (isDown) throw new Error('down')
    return await scene.server.decide(call)
  })
  await Promise.all(Array.from({ length: held }, () => acquireOne(store, 'alice', place(300))))
  scene.clock.advance(36_000)
  sent.length = 0
  return {
    ...scene,
    store,
    sent,
    setDown (down: boolean) {
      isDown = down
    }
  }
}

t.test('after a stall of 36 s, a process renews more than 256 places before it takes more',
  async (t) => {
    const { store, sent, count } = await stallWith(t, 290)
    const more = await Promise.all(
      Array.from({ length: 60 }, () => acquireOne(store, 'alice', place(300)))
    )
    t.equal(more.filter(({ admitted }) => admitted).length, 10)
    t.equal(count(), 300)
    t.same(sent, [0, 60])
  }
)

t.test('requests that wait for such renewals fail with the call that renews', async (t) => {
  const { store, sent, count, setDown } = await stallWith(t, 290)
  setDown(true)
  await t.rejects(acquireOne(store, 'alice', place(300)), /down/)
  await t.rejects(acquireOne(store, 'bob', place(300)), /down/)
  t.same(sent, [0, 0])
  setDown(false)
  await acquireOne(store, 'alice', place(300))
  t.equal(count(), 291)
})

t.test('a clock that fails fails the requests that wait, and no later ones', async (t) => {
  const { server } = start(t)
  let readings = 0
  const clock = () => {
    readings += 1
    if (readings === 2) throw new Error('no clock')
    return 1_000_000
  }
  const store = new SharedStore({ clock }, 1, () => server)
  await t.rejects(acquireOne(store, 'alice'), /no clock/)
  t.match(await acquireOne(store, 'alice'), { admitted: true, count: 1 })
})

t.test('a place that may not have been freed is freed for 30 s from then on, and no longer',
  async (t) => {
    const { server, create, pass } = start(t)
    const performanceClock = virtualPerformance(t)
    let isDown = false
    const freed: number[] = []
    const store = create(async (call) => {
      freed.push(call.freed.length)
      if (isDown) throw new Error('down')
      return await server.decide(call)
    })
    const entry = await acquireOne(store, 'alice', place())
    isDown = true
    await t.rejects(store.settle(entry, 0), /down/)
    for (let second = 1; second < 40; second++) {
      performanceClock.advance(1_000)
      await pass(1_000)
    }
    t.same(freed, [0, ...Array.from({ length: 30 }, () => 1)])
  }
)

t.test('a place that ends while it waits to be freed is free, and its settlement resolves',
  async (t) => {
    const performanceClock = virtualPerformance(t)
    const { server, create } = start(t)
    let go: (() => void) | undefined
    let isSlow = false
    const store = create(async (call) => {
      if (isSlow) {
        isSlow = false
        await new Promise<void>((resolve) => {
          go = resolve
        })
      }
      return await server.decide(call)
    })
    const entry = await acquireOne(store, 'alice', place())
    isSlow = true
    const other = acquireOne(store, 'bob', place())
    await until('a call is under way', () => go !== undefined)
    let isSettled = false
    const settled = store.settle(entry, 0).then(() => {
      isSettled = true
    })
    performanceClock.advance(30_000)
    go?.()
    await other
    await until('it is settled', () => isSettled)
    await settled
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
  await store.settle(entry, 0)
  t.equal(count(), 0)
})

const removals = {
  'is freed': (store: SharedStore, entry: Acquisition) => store.settle(entry, 0),
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
      await pass(renewalInterval)
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

t.test('what waits to be freed during an outage is bounded', async (t) => {
  const { server, create, pass } = start(t)
  let isDown = false
  const freed: number[] = []
  const store = create(async (call) => {
    if (isDown) throw new Error('down')
    freed.push(call.freed.length)
    return await server.decide(call)
  })
  const entry = await acquireOne(store, 'alice', place(1))
  isDown = true
  for (let batch = 0; batch < 100; batch++) {
    await Promise.allSettled(
      Array.from({ length: 128 }, (_, caller) => acquireOne(store, `${batch} ${caller}`, place(1)))
    )
  }
  isDown = false
  await pass(1_000)
  await until('all are freed', () => freed.at(-1) !== 256)
  t.equal(freed.reduce((sum, each) => sum + each, 0), 10_000)
  t.equal(Math.max(...freed), 256)
  await store.settle(entry, 0)
})
