// Requests in flight on a Redis server: a process writes how many places it holds, and renews them.
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { RedisQuotaStore, type QuotaRedisClient } from '../../lib/redis.js'
import { adaptClient } from '../../lib/store/redis/clients.js'
import { VirtualClock } from '../../lib/testing.js'
import { commandsDuring, startRedis } from '../support/redis-server.js'
import { acquireOne, demand, place } from '../support/told-store.js'

const { client } = await startRedis(t)
t.beforeEach(async () => {
  await client.flushall()
})
const key = 'llm-quota:{0}:streams.in-flight'

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
    if (first !== undefined) await one.release(first, 1)
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
          { admitted: false, count: 1, windowRemaining: null, overflow: false }
        ])
      }).then(({ evalsha }) => evalsha),
      undefined
    )
    await store.release(entry, 1)
    t.match(await acquireOne(store, 'alice', place(1)), { admitted: true, count: 1 })
    t.equal(await store.peek(other), null, 'a demand that was not asked reached no counter')
  }
)

t.test('rows of ended processes are removed by a sweep', async (t) => {
  const { clock, one: ended, other } = start(t)
  for (let caller = 0; caller < 20; caller++) await acquireOne(ended, `caller ${caller}`, place())
  mock.timers.reset()
  clock.advance(60_000)
  await acquireOne(other, 'alice', place())
  t.same(
    (await client.hkeysBuffer(key)).map(String).filter((field) => /^[a-z]/.test(field)),
    ['alice']
  )
})

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
    await one.release(entry, 1)
    t.equal(await count(), 1)
    const tokens = demand('alice', { counters: 'chat.tokens.day' })
    isHeld = true
    await t.rejects(async () => one.acquire([tokens, demand('alice', place(2))]), /no reply/)
    t.match(await acquireOne(other, 'alice', place(2)), { admitted: true, count: 2 })
    await acquireOne(one, 'alice', place(5))
    for (const run of held) await run()
    t.equal(await count(), 3)
    t.equal(
      (await other.peek(tokens))?.count ?? 0,
      0,
      'a late request is counted by none of its quotas'
    )
  }
)

t.test('what places cost the server does not grow with their number', async (t) => {
  const { one, renew } = start(t)
  await Promise.all(Array.from({ length: 5_000 }, () => acquireOne(one, 'alice', place(10_000))))
  t.equal(await client.hstrlen(key, 'alice'), 40)
  const { hset = 0 } = await commandsDuring(client, renew)
  t.ok(hset <= 4, `${hset} writes`)
})
