// Concurrent requests on a Redis server: a process writes how many places it holds, and renews them.
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { RedisQuotaStore, type QuotaRedisClient } from '../../lib/redis.js'
import { adaptClient } from '../../lib/store/redis/clients.js'
import { VirtualClock } from '../../lib/testing.js'
import { matchExactly } from '../support/match-exactly.js'
import { commandsDuring, startRedis } from '../support/redis-server.js'
import { acquireOne, demand, place } from '../support/told-store.js'

const { client } = await startRedis(t)
t.beforeEach(async () => {
  await client.flushall()
})
const windows = 'llm-quota:{0}'
const places = 'llm-quota:{0}:places'

/**
 * Stores of two processes, and a third one that only looks. `renew` makes time pass until both
 * renew their places.
 */
function start (t: Test, ownClient: QuotaRedisClient = adaptClient(client)) {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  const create = (used: QuotaRedisClient) =>
    new RedisQuotaStore({ client: used, clock: clock.now, rememberRejections: false })
  const [one, other, observer] = [
    create(ownClient),
    create(adaptClient(client)),
    create(adaptClient(client))
  ]
  return {
    clock,
    one,
    other,
    count: async (caller = 'alice') => (await observer.peek(demand(caller, place())))?.count,
    /** Resolves when the renewals have been written: what follows in a store waits for them. */
    async renew () {
      clock.advance(10_000)
      mock.timers.tick(10_000)
      for (const store of [one, other]) await acquireOne(store, 'another', place())
    }
  }
}

t.test(
  'a process takes no more places than the limit after the server has lost them, and ' +
    'renews those that it has',
  async (t) => {
    const { one, other, renew } = start(t)
    const entries = await Promise.all([1, 2, 3].map(() => acquireOne(one, 'alice', place(3))))
    await client.flushall()
    for (let request = 0; request < 4; request++) {
      t.match(await acquireOne(one, 'alice', place(3)), { admitted: false, count: 3 })
    }
    await client.flushall()
    await renew()
    t.match(await acquireOne(other, 'alice', place(3)), { admitted: false, count: 3 })
    const [first] = entries
    if (first !== undefined) await one.settle(first, 0, null)
    t.match(await acquireOne(one, 'alice', place(3)), { admitted: true, count: 3 })
  }
)

t.test(
  "a process that holds a caller's limit rejects without asking, unless rememberRejections " +
    'is false',
  async (t) => {
    const store = new RedisQuotaStore({ client })
    const entry = await acquireOne(store, 'alice', place(1))
    const other = demand('alice')
    t.same(
      await commandsDuring(client, async () => {
        t.same(store.acquire([other, demand('alice', place(1))]), [
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
      }).then(({ evalsha }) => evalsha),
      undefined
    )
    await store.settle(entry, 0, null)
    t.match(await acquireOne(store, 'alice', place(1)), { admitted: true, count: 1 })
    t.equal(await store.peek(other), null, 'a demand that was not asked reached no counter')
  }
)

t.test('the places of an ended process are free within 30 s, and nothing stays', async (t) => {
  const { clock, one: ended, other } = start(t)
  const callers = Array.from({ length: 2_500 }, (_, caller) => `caller ${caller}`)
  await Promise.all(callers.map((caller) => acquireOne(ended, caller, place(1))))
  mock.timers.reset()
  clock.advance(29_999)
  matchExactly(t, await acquireOne(other, 'caller 7', place(1)), {
    admitted: false,
    granted: 0,
    count: 1,
    held: 1,
    windowRemaining: null,
    overflow: false
  })
  clock.advance(1)
  const entries = await Promise.all(callers.map((caller) => acquireOne(other, caller, place(1))))
  t.equal(entries.filter(({ admitted }) => admitted).length, callers.length)
  t.equal((await other.inspect('streams.concurrent')).trackedCallers, callers.length)
  await Promise.all(entries.map((entry) => other.settle(entry, 0, null)))
  t.equal(await client.exists(places), 0)
})

t.test('nothing stays of callers whose places are free', async (t) => {
  const { one, count } = start(t)
  const callers = Array.from({ length: 3_000 }, (_, caller) => `caller ${caller}`)
  const entries = await Promise.all(callers.map((caller) => acquireOne(one, caller, place())))
  t.equal(await client.hlen(places), 2 * callers.length + 2)
  await Promise.all(entries.map((entry) => one.settle(entry, 0, null)))
  t.equal(await client.exists(places), 0)
  t.same((await client.hkeys(windows)).sort(), ['cleaning', 'layout:4'])
  t.equal(await count('caller 7'), 0)
  t.same(await one.list('streams.concurrent'), { callers: [], cursor: null })
  t.same(await one.inspect('streams.concurrent'), { trackedCallers: 0, sweeps: 0 })
})

t.test(
  'after an outage, a process has sent what it holds and nothing else, in bounded parts',
  async (t) => {
    const adapted = adaptClient(client)
    const sent: (string | Buffer)[][] = []
    let isDown = false
    const { one, count, renew } = start(t, {
      evaluateSource: adapted.evaluateSource,
      evaluateDigest: async (...command) => {
        if (isDown) throw new Error('down')
        sent.push([...command[2]])
        return await adapted.evaluateDigest(...command)
      }
    })
    const callers = Array.from({ length: 600 }, (_, caller) => `holder ${caller}`)
    const entries = await Promise.all(callers.map((caller) => acquireOne(one, caller, place())))
    isDown = true
    await Promise.allSettled(
      Array.from({ length: 5_000 }, (_, caller) => acquireOne(one, `refused ${caller}`, place()))
    )
    await client.flushall()
    isDown = false
    sent.length = 0
    await renew()
    await renew()
    const names = sent.flat().filter((name) => typeof name === 'string')
    t.same(
      names.filter((name) => name.includes('refused')),
      [],
      'callers who were refused are forgotten'
    )
    t.ok(Math.max(...sent.map(({ length }) => length)) < 300, 'no call states all of them')
    for (const caller of ['holder 0', 'holder 300', 'holder 599']) t.equal(await count(caller), 1)
    await Promise.all(entries.map((entry) => one.settle(entry, 0, null)))
    t.equal(await count('holder 300'), 0)
  }
)

t.test(
  'a late call neither takes a place nor changes how many a later one has written',
  async (t) => {
    const adapted = adaptClient(client)
    const held: (() => Promise<unknown>)[] = []
    let isHeld = false
    const late: QuotaRedisClient['evaluateDigest'] = (script, keys, parameters) => {
      if (!isHeld) return adapted.evaluateDigest(script, keys, parameters)
      isHeld = false
      held.push(() => adapted.evaluateDigest(script, keys, parameters))
      return Promise.reject(new Error('no reply'))
    }
    const { one, other, count } = start(t, { ...adapted, evaluateDigest: late })
    await acquireOne(one, 'alice', place(2))
    isHeld = true
    await t.rejects(acquireOne(one, 'alice', { ...place(2) }), /no reply/)
    const entry = await acquireOne(one, 'alice', place(2))
    await one.settle(entry, 0, null)
    t.equal(await count(), 1)
    const tokens = demand('alice', { counters: 'chat.tokens.day' })
    isHeld = true
    await t.rejects(async () => one.acquire([tokens, demand('alice', place(2))]), /no reply/)
    t.match(await acquireOne(other, 'alice', place(2)), { admitted: true, count: 2 })
    await acquireOne(one, 'alice', place(5))
    for (const run of held) await t.rejects(run(), /LATE/)
    t.equal(await count(), 3)
    t.equal(
      (await other.peek(tokens))?.count ?? 0,
      0,
      'a late request is counted by none of its quotas'
    )
  }
)

t.test('a process states its places again after a late call has begun another lease', async (t) => {
  const adapted = adaptClient(client)
  const late: (() => Promise<unknown>)[] = []
  let isLate = false
  const { clock, one, other, count, renew } = start(t, {
    ...adapted,
    evaluateDigest: (digest, keys, parameters) => {
      if (!isLate) return adapted.evaluateDigest(digest, keys, parameters)
      late.push(async () => {
        // The time of a call is that of the server, which the clock replaces.
        const [numbers, ...names] = parameters
        if (!(numbers instanceof Buffer)) throw new TypeError('the numbers come first')
        numbers.writeDoubleLE(clock.now())
        await adapted.evaluateDigest(digest, keys, [numbers, ...names])
      })
      return Promise.reject(new Error('no reply'))
    }
  })
  await acquireOne(one, 'alice', place(1))
  isLate = true
  await t.rejects(acquireOne(one, 'bob', place(1)), /no reply/)
  isLate = false
  await renew()
  t.equal(await count(), 1)

  // The server's clock is set forward, so that the lease ends, and with it the number of calls.
  clock.advance(30_000)
  await acquireOne(other, 'carol', place(1))
  t.equal(await count(), 0)
  for (const run of late) await run()
  t.equal(await count('bob'), 1)
  await renew()
  await renew()
  t.equal(await count(), 1, 'the process has learned that its lease had ended')
  t.equal(await count('bob'), 0, 'and the place of the late call is free')
})

t.test(
  'nothing stays of a process that resumes while its ended lease is being cleaned',
  async (t) => {
    const { clock, one, other, count } = start(t)
    // More than one page of the cleaning.
    const callers = Array.from({ length: 2_500 }, (_, caller) => `caller ${caller}`)
    const entries = await Promise.all(callers.map((caller) => acquireOne(one, caller, place())))
    clock.advance(30_000)
    const before = await client.hlen(places)
    const another = await acquireOne(other, 'another', place())
    const between = await client.hlen(places)
    t.ok(between < before && between > 1_000, 'a part of them is cleaned')
    // The first call renews the lease, and the others state anew what the process holds.
    for (const caller of ['caller 0', 'caller 2499']) {
      entries.push(await acquireOne(one, caller, place()))
      t.equal(await count(caller), 2)
    }
    await Promise.all(entries.map((entry) => one.settle(entry, 0, null)))
    await other.settle(another, 0, null)
    t.equal(await client.exists(places), 0)
  }
)

t.test('a lost reply loses no place for good, and takes none for good', async (t) => {
  const adapted = adaptClient(client)
  let isLost = false
  const { one, other, count, renew } = start(t, {
    evaluateSource: adapted.evaluateSource,
    evaluateDigest: async (...command) => {
      const reply = await adapted.evaluateDigest(...command)
      if (isLost) throw new Error('lost')
      return reply
    }
  })
  const kept = await acquireOne(one, 'alice', place(3))
  isLost = true
  await t.rejects(acquireOne(one, 'alice', place(3)), /lost/)
  await t.rejects(acquireOne(one, 'bob', place(3)), /lost/)
  isLost = false
  t.equal(await count('bob'), 1, 'the server has counted a place that nobody has')
  await acquireOne(one, 'carol', place(3))
  t.equal(await count(), 1)
  matchExactly(t, await acquireOne(other, 'bob', place(1)), {
    admitted: true,
    granted: 1,
    count: 1,
    held: 1,
    windowRemaining: null,
    overflow: false
  })
  isLost = true
  await t.rejects(one.settle(kept, 0, null), /lost/)
  isLost = false
  await renew()
  await renew()
  t.equal(await count(), 0, 'a place that was freed stays free')
})

for (const processes of [2, 200]) {
  const name = `a decision beside ${processes} processes with places runs as many commands`
  t.test(name, async (t) => {
    const clock = new VirtualClock()
    clock.advance(1_000_000)
    const stores = Array.from(
      { length: processes },
      () => new RedisQuotaStore({ client, clock: clock.now, rememberRejections: false })
    )
    const limit = 100_000
    for (let round = 0; round < 3; round++) {
      await Promise.all(stores.map((store) => acquireOne(store, 'alice', place(limit))))
    }
    const [store] = stores
    if (store === undefined) throw new Error('there is no store')
    const commands = await commandsDuring(client, async () => {
      await Promise.all(Array.from({ length: 64 }, () => acquireOne(store, 'alice', place(limit))))
    })
    matchExactly(
      t,
      [await store.peek(demand('alice', place(limit)))],
      [{ count: 3 * processes + 64 }]
    )
    const { config, info, ...own } = commands
    t.same(own, { evalsha: 1, hmget: 2, hset: 2, pexpire: 1, time: 1 })
    const { hset, hdel, hscan } = await commandsDuring(client, async () => {
      await acquireOne(store, 'another', place(limit))
    })
    t.same([hset, hdel, hscan], [2, undefined, undefined], 'nor does a renewal')
  })
}
