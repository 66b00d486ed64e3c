// The server's clock is set back. Inactive callers once kept their places for as long as the step.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'
import { acquireOne, place } from '../support/told-store.js'

const { client } = await startRedis(t)
t.beforeEach(async () => { await client.flushall() })

// The clock is set back directly after the latest decision.
for (const step of [1, 1_000, 30_000, 59_999, 90_000, 3_600_000, 1e11]) {
  t.test(`a window does not become longer, and no wait negative, if the clock is set back by ${step} ms after a decision`, async (t) => {
    for (const latest of ['alice', 'bob']) {
      await client.flushall()
      let now = 1e12
      const store = new RedisQuotaStore({ client, clock: () => now, rememberRejections: false })
      await acquireOne(store, 'alice', { limit: 1 })
      now += 20_000
      await acquireOne(store, latest, { limit: 1 })
      now -= step
      t.match(await acquireOne(store, 'alice', { limit: 1 }), { admitted: false, windowRemaining: 40_000 })
      now += 39_999
      t.match(await acquireOne(store, 'alice', { limit: 1 }), { admitted: false, windowRemaining: 1 })
      now += 1
      t.match(await acquireOne(store, 'alice', { limit: 1 }), { admitted: true, windowRemaining: 60_000 })
    }
  })
}

t.test('sweeps continue after the clock has been set back', async (t) => {
  let now = 10_000_000
  const store = new RedisQuotaStore({ client, clock: () => now, rememberRejections: false })
  await acquireOne(store, 'alice', { limit: 1 })
  now -= 3_600_000
  for (let minute = 0; minute < 3; minute++) {
    await acquireOne(store, 'bob', { limit: 1 })
    now += 60_000
  }
  t.equal((await store.inspect('default')).sweeps, 2)
})

t.test('no lease outlives a step back of the clock by more than 30 s', async (t) => {
  let now = 10_000_000
  const [ended, other] = [new RedisQuotaStore({ client, clock: () => now }), new RedisQuotaStore({ client, clock: () => now })]
  await acquireOne(ended, 'alice', place(1))
  now -= 3_600_000
  t.match(await acquireOne(other, 'alice', place(1)), { admitted: false, count: 1 })
  now += 30_000
  t.match(await acquireOne(other, 'alice', place(1)), { admitted: true, count: 1 })
})

for (const step of [1_000, 90_000, 3_600_000, 1e11]) {
  t.test(`an inactive caller keeps its place for at most 180 s if the clock is set back by ${step} ms`, async (t) => {
    let now = 1e12
    const store = new RedisQuotaStore({ client, clock: () => now, maxTrackedCallers: 3, rememberRejections: false })
    for (const name of ['one', 'two', 'three']) await acquireOne(store, name, { limit: 1 })
    t.match(await acquireOne(store, 'newcomer', { limit: 1 }), { overflow: true })
    now -= step
    for (let second = 0; second < 180; second += 10) {
      now += 10_000
      await acquireOne(store, 'one', { limit: 1 })
    }
    t.match(await acquireOne(store, 'newcomer', { limit: 1 }), { overflow: false })
    t.match(await store.inspect('default'), { trackedCallers: 2 })
  })

  t.test(`a window becomes longer by at most the time since the last decision plus 100 ms if the clock is set back by ${step} ms`, async (t) => {
    for (const [lag, idle] of [[50, 0], [50, 50], [50, 99], [50, 100], [50, 3_000], [50, 30_000], [150, 0]] as const) {
      await client.flushall()
      let now = 1e12
      const store = new RedisQuotaStore({ client, clock: () => now, rememberRejections: false })
      await acquireOne(store, 'alice', { limit: 1 })
      now += 20_000
      await acquireOne(store, 'bob', { limit: 1 })
      now += lag
      await acquireOne(store, 'bob', { limit: 1 })
      now += idle
      now -= step
      const windowRemaining = Number((await acquireOne(store, 'alice', { limit: 1 })).windowRemaining)
      const trulyLeft = 60_000 - 20_000 - lag - idle
      t.ok(windowRemaining >= trulyLeft && windowRemaining <= trulyLeft + idle + 100, `${lag} and ${idle} ms: ${windowRemaining - trulyLeft} ms longer`)
    }
  })
}
