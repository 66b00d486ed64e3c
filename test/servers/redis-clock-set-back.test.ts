// The server's clock is set back. Inactive callers once kept their places for as long as the step.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)
t.beforeEach(async () => { await client.flushall() })

// The clock is set back directly after the latest decision.
for (const step of [1, 1_000, 30_000, 59_999, 90_000, 3_600_000, 1e11]) {
  t.test(`a window does not become longer, and no wait negative, if the clock is set back by ${step} ms after a decision`, async (t) => {
    for (const latest of ['alice', 'bob']) {
      await client.flushall()
      let now = 1e12
      const store = new RedisQuotaStore({ client, clock: () => now, rememberRefusals: false })
      await store.acquire('alice', 1)
      now += 20_000
      await store.acquire(latest, 1)
      now -= step
      t.match(await store.acquire('alice', 1), { admitted: false, windowRemaining: 40_000 })
      now += 39_999
      t.match(await store.acquire('alice', 1), { admitted: false, windowRemaining: 1 })
      now += 1
      t.match(await store.acquire('alice', 1), { admitted: true, windowRemaining: 60_000 })
    }
  })
}

t.test('sweeps continue after the clock has been set back', async (t) => {
  let now = 10_000_000
  const store = new RedisQuotaStore({ client, clock: () => now, rememberRefusals: false })
  await store.acquire('alice', 1)
  now -= 3_600_000
  for (let minute = 0; minute < 3; minute++) {
    await store.acquire('bob', 1)
    now += 60_000
  }
  t.equal((await store.inspect()).sweeps, 2)
})

t.test('no lease outlives a step back of the clock by more than 30 s', async (t) => {
  let now = 10_000_000
  const [ended, other] = [1, 2].map(() => new RedisQuotaStore({ client, clock: () => now }))
  await ended?.enter('alice', 1)
  now -= 3_600_000
  t.match(await other?.enter('alice', 1), { admitted: false, count: 1 })
  now += 30_000
  t.match(await other?.enter('alice', 1), { admitted: true, count: 1 })
})

for (const step of [1_000, 90_000, 3_600_000, 1e11]) {
  t.test(`an inactive caller keeps its place for at most 180 s if the clock is set back by ${step} ms`, async (t) => {
    let now = 1e12
    const store = new RedisQuotaStore({ client, clock: () => now, maxTrackedCallers: 3, rememberRefusals: false })
    for (const name of ['one', 'two', 'three']) await store.acquire(name, 1)
    t.match(await store.acquire('newcomer', 1), { overflow: true })
    now -= step
    for (let second = 0; second < 180; second += 10) {
      now += 10_000
      await store.acquire('one', 1)
    }
    t.match(await store.acquire('newcomer', 1), { overflow: false })
    t.match(await store.inspect(), { trackedCallers: 2 })
  })

  t.test(`a window becomes longer by at most the time since the last decision plus 100 ms if the clock is set back by ${step} ms`, async (t) => {
    for (const [lag, idle] of [[50, 0], [50, 50], [50, 99], [50, 100], [50, 3_000], [50, 30_000], [150, 0]] as const) {
      await client.flushall()
      let now = 1e12
      const store = new RedisQuotaStore({ client, clock: () => now, rememberRefusals: false })
      await store.acquire('alice', 1)
      now += 20_000
      await store.acquire('bob', 1)
      now += lag
      await store.acquire('bob', 1)
      now += idle
      now -= step
      const { windowRemaining } = await store.acquire('alice', 1)
      const trulyLeft = 60_000 - 20_000 - lag - idle
      t.ok(windowRemaining >= trulyLeft && windowRemaining <= trulyLeft + idle + 100, `${lag} and ${idle} ms: ${windowRemaining - trulyLeft} ms longer`)
    }
  })
}

t.test('the same holds for the server\'s clock', async (t) => {
  const store = new RedisQuotaStore({ client, rememberRefusals: false })
  const key = 'llm-quota:{0}:default:counters'
  const pass = async (time: number) => client.pexpire(key, await client.pttl(key) - time)
  await store.acquire('alice', 1)
  await pass(20_000)
  await store.acquire('bob', 5)
  await pass(150)
  await store.acquire('bob', 5)
  await pass(-3_600_000)
  const { windowRemaining } = await store.acquire('alice', 1)
  t.ok(windowRemaining <= 60_000 - 20_150 + 100, `${windowRemaining} ms`)
})
