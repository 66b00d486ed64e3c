// Named quotas, costs and requests in flight on a real server, compared with the memory store where it can tell.
import { deepStrictEqual } from 'node:assert/strict'
import { mock } from 'node:test'
import fc from 'fast-check'
import t from 'tap'
import { MemoryQuotaStore, type QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import type { Entry } from '../../lib/store/store.js'
import { VirtualClock } from '../../lib/testing.js'
import { assertProperty } from '../support/property.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)
t.beforeEach(async () => { await client.flushall() })

const minute = 60_000
const windows = { default: minute, hourly: 60 * minute, daily: 1_440 * minute }
const largest = Number.MAX_SAFE_INTEGER

const quota = fc.constantFrom('default', 'hourly', 'daily')
const caller = fc.constantFrom(...'abcd')
const gap = fc.constantFrom(0, 0, 0, 1, 30_000, 60_000, 3_600_000, 3_660_000, 86_400_000, 86_460_000)
const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('acquire' as const), quota, gap, caller, limit: fc.constantFrom(1, 2, 5, largest), cost: fc.constantFrom(0, 1, 1, 3, 2 ** 40, largest) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('enter' as const), quota, caller, limit: fc.integer({ min: 0, max: 3 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('leave' as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('peek' as const), quota, gap, caller }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('forget' as const), quota, caller }) }
)

const runs = Number(process.env['RANDOM_WALKS'] ?? 40)

t.test('several quotas with costs and requests in flight have the results of the memory store', { timeout: 300_000 }, async (t) => {
  let walk = 0
  const walks = fc.record({ maxTrackedCallers: fc.integer({ min: 1, max: 4 }), steps: fc.array(step, { minLength: 100, maxLength: 100, size: 'max' }) })
  await assertProperty(fc.asyncProperty(walks, async ({ maxTrackedCallers, steps }) => {
    const clock = new VirtualClock()
    const stores = [
      new RedisQuotaStore({ client, clock: clock.now, maxTrackedCallers, rememberRefusals: false, keyPrefix: `walk-${++walk}:` }),
      new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers })
    ].map((store) => ({ store, quotas: quotasOf(store), entries: [] as Entry[] }))
    for (const step of steps) {
      if ('gap' in step) clock.advance(step.gap)
      const [onServer, inMemory] = await Promise.all(stores.map(async ({ quotas, entries }) => {
        if (step.kind === 'leave') return entries.splice(step.which % (entries.length + 1), 1)[0]?.leave?.()
        const store = quotas[step.quota]
        if (step.kind === 'acquire') return store.acquire(step.caller, step.limit, step.cost)
        if (step.kind === 'peek') return store.peek?.(step.caller)
        if (step.kind === 'forget') return store.forget?.(step.caller)
        const entry = await store.enter?.(step.caller, step.limit)
        if (entry?.admitted === true) entries.push(entry)
        return { admitted: entry?.admitted, count: entry?.count }
      }))
      deepStrictEqual(onServer, inMemory)
      for (const name of ['default', 'hourly', 'daily'] as const) {
        const [one, other] = await Promise.all(stores.map(({ quotas }) => quotas[name].inspect?.()))
        deepStrictEqual(one, other)
      }
      // A lease ends by the virtual clock, unless it was renewed.
      if ('gap' in step && step.gap >= 30_000) await Promise.all(stores.flatMap(({ entries }) => entries.splice(0).map((entry) => entry.leave?.())))
    }
    await Promise.all(stores.flatMap(({ entries }) => entries.map((entry) => entry.leave?.())))
  }), { numRuns: runs, endOnFailure: true })
  t.pass()
})

function quotasOf (store: QuotaStore & Required<Pick<QuotaStore, 'quota'>>): Record<keyof typeof windows, QuotaStore> {
  return { default: store, hourly: store.quota('hourly', windows.hourly), daily: store.quota('daily', windows.daily) }
}

t.test('a quota is the same object for the same name, and its keys contain the name and expire after its window', async (t) => {
  const store = new RedisQuotaStore({ client, shards: 4 })
  t.equal(store.quota('daily', windows.daily), store.quota('daily', windows.daily))
  await store.quota('daily', windows.daily).acquire('alice', 5)
  await store.quota('daily', windows.daily).enter('alice', 5)
  const shard = store.shardOf('alice')
  const keys = (await client.keys('*')).sort()
  t.same(keys, [`llm-quota:{${shard}}:daily:counters`, `llm-quota:{${shard}}:daily:places`])
  const [counters, places] = await Promise.all(keys.map((key) => client.pttl(key)))
  t.ok(Number(counters) > windows.daily && Number(counters) <= windows.daily + 2 * minute)
  t.ok(Number(places) > 20_000 && Number(places) <= 30_000)
  t.same({ keyPrefix: store.keyPrefix, shards: store.shards }, { keyPrefix: 'llm-quota:', shards: 4 })
})

t.test('clearCounters removes the counters of every quota', async (t) => {
  const store = new RedisQuotaStore({ client })
  await Promise.all([store.acquire('alice', 1), store.quota('daily', windows.daily).acquire('alice', 1)])
  await store.clearCounters()
  t.same(await client.keys('*'), [])
})

t.test('a charge reaches the server although a rejection is remembered, and the rejection stays remembered', async (t) => {
  const clock = new VirtualClock()
  const store = new RedisQuotaStore({ client, clock: clock.now })
  await store.acquire('alice', 10, 20)
  t.match(await store.acquire('alice', 10, 0), { admitted: false, count: 20 })
  t.match(store.acquire('alice', 10, 0), { admitted: false, count: 20 }, 'from memory')
  t.match(await store.acquire('alice', largest, 5), { admitted: true, count: 25 })
  t.match(store.acquire('alice', 10, 0), { admitted: false }, 'from memory')
})

t.test('a rejection is remembered for at most a minute, so that forget of another instance takes effect', async (t) => {
  const clock = new VirtualClock()
  const [one, other] = [new RedisQuotaStore({ client, clock: clock.now }), new RedisQuotaStore({ client, clock: clock.now })].map((store) => store.quota('daily', windows.daily))
  await one?.acquire('alice', 1)
  t.match(await one?.acquire('alice', 1), { admitted: false })
  await other?.forget('alice')
  clock.advance(minute - 1)
  t.match(one?.acquire('alice', 1), { admitted: false, windowRemaining: windows.daily - minute + 1 })
  clock.advance(1)
  t.match(await one?.acquire('alice', 1), { admitted: true, count: 1 })
})

t.test('asks, counts and charges of the same turn share scripts', async (t) => {
  const store = new RedisQuotaStore({ client })
  await store.acquire('first', 1)
  await client.config('RESETSTAT')
  await Promise.all(Array.from({ length: 16 }, (_, caller) => [store.acquire(`caller ${caller}`, 10, 0), store.acquire(`caller ${caller}`, largest, 100 + caller)]).flat())
  const [, scripts] = /cmdstat_eval:calls=(\d+)/.exec(await client.info('commandstats')) ?? []
  const [, digests = 0] = /cmdstat_evalsha:calls=(\d+)/.exec(await client.info('commandstats')) ?? []
  t.equal(Number(scripts ?? 0) + Number(digests), 1)
})

t.test('places of a process that no longer renews them are free within 30 s, and it takes them again when it wakes', async (t) => {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => { mock.timers.reset() })
  const [frozen, other] = [new RedisQuotaStore({ client, clock: clock.now }), new RedisQuotaStore({ client, clock: clock.now })]
  const entry = await frozen.enter('alice', 1)
  t.match(entry, { admitted: true, count: 1 })
  t.match(await other.enter('alice', 1), { admitted: false, count: 1 })

  // The renewal is sent before the commands that follow.
  for (let renewals = 0; renewals < 12; renewals++) {
    clock.advance(10_000)
    mock.timers.tick(10_000)
  }
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

t.test('rows of ended processes are removed by renewals of others', async (t) => {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => { mock.timers.reset() })
  const ended = new RedisQuotaStore({ client, clock: clock.now })
  for (let caller = 0; caller < 20; caller++) await ended.enter(`caller ${caller}`, 1)
  clock.advance(25_000)
  mock.timers.reset()
  mock.timers.enable({ apis: ['setInterval'] })
  const running = new RedisQuotaStore({ client, clock: clock.now })
  await running.enter('alice', 1)
  clock.advance(10_000)
  mock.timers.tick(10_000)
  t.match(await running.enter('alice', 0), { count: 1 })
  t.same((await client.hkeysBuffer('llm-quota:{0}:default:places')).map(String).filter((field) => /^[a-z]/.test(field)), ['alice'])
})

t.test('no lease outlives a step back of the server clock by more than 30 s', async (t) => {
  let now = 10_000_000
  const store = new RedisQuotaStore({ client, clock: () => now })
  await store.enter('alice', 1)
  now -= 3_600_000
  t.match(await store.enter('alice', 1), { admitted: false, count: 1 })
  now += 30_000
  t.match(await store.enter('alice', 1), { admitted: true, count: 1 })
})
