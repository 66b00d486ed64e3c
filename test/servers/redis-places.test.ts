// Concurrent requests on a Redis server: each place has a name, and its process renews it.
// test/stores/shared-places.test.ts has what a process does, redis-driver.test.ts what a call does.
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { Keys } from '../../lib/store/redis/keys.js'
import { VirtualClock } from '../../lib/testing.js'
import { acquireOne, place } from '../support/demands.js'
import { commandsDuring, startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)
const whole = { count: 1, held: 1 }
t.beforeEach(async () => {
  await client.flushall()
})
const keys = new Keys('llm-quota:')
const counters = 'streams.concurrent'
const holdersKey = keys.holders(counters)
const placesKey = (callerKey: string) => keys.places({ counters, callerKey })

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

t.test('every ended place of a caller is removed, a thousand with each call', async (t) => {
  const { clock, one: ended, other } = start(t)
  const limit = 10_000
  await Promise.all(
    Array.from({ length: 2_500 }, () => acquireOne(ended, 'alice', place(limit)))
  )
  mock.timers.reset()
  clock.advance(30_000)
  for (const [count, left] of [[1, 1_501], [2, 502], [3, 3], [4, 4]]) {
    t.match(await acquireOne(other, 'alice', place(limit)), { count })
    t.equal(await client.zcard(placesKey('alice')), left)
  }
})

t.test('every ended caller of a quota is removed, a thousand with each call', async (t) => {
  const { clock, one: ended, other } = start(t)
  const callers = Array.from({ length: 2_500 }, (_, caller) => `caller-${caller}`)
  await Promise.all(callers.map((caller) => acquireOne(ended, caller, place())))
  mock.timers.reset()
  clock.advance(30_000)
  for (const left of [1_501, 501, 1]) {
    await acquireOne(other, 'alice', place())
    t.equal(await client.zcard(holdersKey), left)
  }
})

t.test('each key of places expires after 30 s, and with the last place', async (t) => {
  const { one } = start(t)
  const callers = Array.from({ length: 3_000 }, (_, caller) => `caller-${caller}`)
  const entries = await Promise.all(callers.map((caller) => acquireOne(one, caller, place())))
  for (const key of [holdersKey, placesKey('caller-7')]) {
    const left = await client.pttl(key)
    t.ok(left > 20_000 && left <= 30_000, `${key} expires in ${left} ms`)
  }
  t.equal(await client.dbsize(), callers.length + 1)
  await Promise.all(entries.map(({ receipt }) => one.settle(receipt, whole)))
  t.same(await client.keys('*'), [holdersKey], 'what names them expires by itself')
  t.match(await one.list(counters), { callers: [] })
  t.same(await one.inspect(counters), { trackedCallers: 0 })
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
      zcard: 1,
      zcount: 2,
      zadd: 2,
      pexpire: 2,
      time: 1
    })
  })
}
