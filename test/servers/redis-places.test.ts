// Concurrent requests on a Redis server: each place has a name, and its process renews it.
// test/stores/shared-places.test.ts has what a process does, redis-driver.test.ts what a call does.
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { Keys } from '../../lib/store/redis/keys.js'
import { VirtualClock } from '../../lib/testing.js'
import { acquireOne, demand, place } from '../support/demands.js'
import { commandsDuring, startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)
const whole = { count: 1, held: 1 }
t.beforeEach(async () => {
  await client.flushall()
})
const counters = 'streams.concurrent'
const key = new Keys('llm-quota:').places(counters)

/** Stores of two processes, whose timers do not run. */
function start (t: Test) {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  const create = () => new RedisQuotaStore({ client, clock: clock.now, rememberRejections: false })
  const [one, other] = [create(), create()]
  return {
    clock,
    one,
    other
  }
}

t.test('the ended places of a caller are removed with its next one', async (t) => {
  const { clock, one: ended, other } = start(t)
  const limit = 10_000
  await Promise.all(Array.from({ length: 500 }, () => acquireOne(ended, 'alice', place(limit))))
  const withAll = await client.hstrlen(key, 'alice')
  mock.timers.reset()
  clock.advance(30_000)
  t.match(await acquireOne(other, 'alice', place(limit)), { count: 1 })
  const withOne = await client.hstrlen(key, 'alice')
  t.ok(withOne < withAll / 300, `${withOne} of ${withAll} bytes are left`)
})

t.test('a caller whose places have ended is removed when they are asked for', async (t) => {
  const { clock, one: ended, other } = start(t)
  await acquireOne(ended, 'alice', place())
  await acquireOne(other, 'bob', place())
  mock.timers.reset()
  clock.advance(30_000)
  t.match(await other.peek(demand('alice', place())), { count: 0 })
  t.same(await client.hkeys(key), ['bob'])
})

t.test('callers whose places have ended are removed as others come, a thousand with each call',
  async (t) => {
    const { clock, one: ended, other } = start(t)
    const callers = Array.from({ length: 2_500 }, (_, caller) => `caller-${caller}`)
    await Promise.all(callers.map((caller) => acquireOne(ended, caller, place())))
    mock.timers.reset()
    clock.advance(30_000)
    let left = callers.length
    for (const caller of ['one', 'two', 'three']) {
      await acquireOne(other, caller, place())
      const rows = await client.hlen(key)
      const removed = left + 1 - rows
      t.ok(removed <= 1_000, `${removed} are removed`)
      left = rows
    }
    // It stops when it draws more living ones by chance, rarely as long as there are many dead.
    t.ok(left <= 200, `${left} are left`)
  }
)

t.test('the places of a quota expire within 90 s, and with the last place', async (t) => {
  const { one } = start(t)
  const callers = Array.from({ length: 3_000 }, (_, caller) => `caller-${caller}`)
  const entries = await Promise.all(callers.map((caller) => acquireOne(one, caller, place())))
  const left = await client.pttl(key)
  t.ok(left > 30_000 && left <= 90_000, `${key} expires in ${left} ms`)
  t.equal(await client.dbsize(), 1)
  await Promise.all(entries.map(({ receipt }) => one.settle(receipt, whole)))
  t.same(await client.keys('*'), [])
  t.same(await one.list(counters), { callers: [], cursor: null })
})

t.test('list and inspect find the callers of several pages', async (t) => {
  const { one } = start(t)
  const callers = Array.from({ length: 3_500 }, (_, caller) => `caller-${caller}`)
  await Promise.all(callers.map((caller) => acquireOne(one, caller, place())))
  t.same(await one.inspect(counters), { trackedCallers: callers.length })
  const listed = new Set<string>()
  let cursor: string | undefined
  do {
    const page = await one.list(counters, cursor)
    for (const { callerKey } of page.callers) listed.add(callerKey)
    cursor = page.cursor ?? undefined
  } while (cursor !== undefined)
  t.same([...listed].sort(), [...callers].sort())
})

for (const others of [2, 2_000]) {
  const name = `a place beside ${others} others of its caller takes as many commands`
  t.test(name, async (t) => {
    const { one, other } = start(t)
    await acquireOne(one, 'another', place())
    await Promise.all(Array.from({ length: others }, () => acquireOne(other, 'alice', place(1e6))))
    const { config, info, ...own } = await commandsDuring(client, async () => {
      t.match(await acquireOne(one, 'alice', place(1e6)), { count: others + 1 })
    })
    t.same(own, {
      evalsha: 1,
      time: 1,
      hmget: 1,
      hset: 1,
      pttl: 1,
      hrandfield: 1
    })
  })
}
