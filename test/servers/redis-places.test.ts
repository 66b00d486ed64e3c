// Requests in flight on a Redis server: each place is a lease that its process renews.
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { RedisQuotaStore, type QuotaRedisClient } from '../../lib/redis.js'
import { adaptIoredis } from '../../lib/store/redis/clients/ioredis.js'
import { VirtualClock } from '../../lib/testing.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)
t.beforeEach(async () => { await client.flushall() })

/** Stores of several processes. `renew` makes time pass until all of them renew their places. */
function start (t: Test) {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => { mock.timers.reset() })
  const renew = () => {
    clock.advance(10_000)
    mock.timers.tick(10_000)
  }
  return { clock, renew, stores: [new RedisQuotaStore({ client, clock: clock.now }), new RedisQuotaStore({ client, clock: clock.now })] as const }
}

t.test('places of a process that no longer renews them are free within 30 s, and it takes them again when it wakes', async (t) => {
  const { clock, renew, stores: [frozen, other] } = start(t)
  const entry = await frozen.enter('alice', 1)
  t.match(entry, { admitted: true, count: 1 })
  t.match(await other.enter('alice', 1), { admitted: false, count: 1 })

  // The renewal is sent before the commands that follow.
  for (let renewals = 0; renewals < 12; renewals++) renew()
  t.match(await other.enter('alice', 1), { admitted: false, count: 1 }, 'renewed for two minutes')

  clock.advance(29_999)
  t.match(await other.enter('alice', 0), { admitted: false, count: 1 })
  clock.advance(1)
  const second = await other.enter('alice', 1)
  t.match(second, { admitted: true, count: 1 }, 'the lease has ended')

  mock.timers.tick(10_000)
  t.match(await other.enter('alice', 0), { count: 2 }, 'the request that is still running has taken its place again')
  await entry.leave?.()
  await entry.leave?.()
  t.match(await other.enter('alice', 0), { count: 1 }, 'given back once')
  await second.leave?.()
  t.match(await other.enter('alice', 0), { count: 0 })
})

t.test('a process takes no more places than the limit after the server has lost them, and renews those that it has', async (t) => {
  const { renew, stores: [one, other] } = start(t)
  const entries = await Promise.all([1, 2, 3].map(() => one.enter('alice', 3)))
  await client.flushall()
  const outcomes = await Promise.all([1, 2, 3, 4].map(() => one.enter('alice', 3)))
  t.same(outcomes.map(({ admitted, count, leave }) => ({ admitted, count, leave })), outcomes.map(() => ({ admitted: false, count: 3, leave: undefined })))
  renew()
  t.match(await other.enter('alice', 3), { admitted: false, count: 3 })
  await entries[0]?.leave?.()
  t.match(await one.enter('alice', 3), { admitted: true, count: 3 })
})

t.test('rows of ended processes are removed by renewals of others', async (t) => {
  const { clock, renew, stores: [ended, running] } = start(t)
  for (let caller = 0; caller < 20; caller++) await ended.enter(`caller ${caller}`, 1)
  clock.advance(25_000)
  mock.timers.reset()
  mock.timers.enable({ apis: ['setInterval'] })
  await running.enter('alice', 1)
  renew()
  t.match(await running.enter('alice', 0), { count: 1 })
  t.same((await client.hkeysBuffer('llm-quota:{0}:default:places')).map(String).filter((field) => /^[a-z]/.test(field)), ['alice'])
})

t.test('a place stays free if a client with several connections renews it after it was given back', async (t) => {
  const { renew, stores: [other] } = start(t)
  const adapted = adaptIoredis(client)
  let giveBack = () => {}
  const givenBack = new Promise<void>((resolve) => { giveBack = resolve })
  const isRenewal = ([checkedRows]: readonly string[]) => checkedRows !== '0'
  const withSeveral: QuotaRedisClient = {
    ...adapted,
    async evaluateSource (source, key, parameters) {
      if (isRenewal(parameters)) await givenBack
      return adapted.evaluateSource(source, key, parameters)
    }
  }
  const entry = await new RedisQuotaStore({ client: withSeveral }).enter('alice', 1)
  renew()
  await entry.leave?.()
  t.match(await other.enter('alice', 0), { count: 0 })
  giveBack()
  let seen = 0
  let count = 1
  for (let attempt = 0; attempt < 200 && (seen === 0 || count > 0); attempt++) {
    count = (await other.enter('alice', 0)).count
    seen = Math.max(seen, count)
  }
  t.equal(count, 0)
})
