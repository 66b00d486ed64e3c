// On a server whose memory was full, every request was admitted: the counters were evicted before the next decision, or created although
// the server had no memory for them.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'
import { virtualPerformance } from '../support/virtual-performance.js'

const limit = 5

// With room for a moment, or if the server evicts any key, the counters can be created and evicted again.
const cases = ['noeviction', 'volatile-lru', 'volatile-ttl', 'allkeys-lru'].flatMap((policy) => [false, true].map((hasRoom) => ({ policy, hasRoom })))

for (const { policy, hasRoom } of cases) {
  t.test(`no caller is admitted more often than its limit on a server that is full of other data${hasRoom ? ', with room for a moment' : ''}, with ${policy}`, async (t) => {
    const { server, client } = await startRedis(t)
    const other = server.client()
    t.teardown(() => { other.disconnect() })
    const [, used] = /used_memory:(\d+)/.exec(await client.info('memory')) ?? []
    await client.config('SET', 'maxmemory', String(Number(used) + 2_000_000))
    await client.config('SET', 'maxmemory-policy', 'noeviction')
    let keys = 0
    const fill = () => other.set(`other ${keys++}`, 'x'.repeat(500))
    await t.rejects(async () => { for (;;) await fill() }, /OOM/)
    await client.config('SET', 'maxmemory-policy', policy)

    const store = new RedisQuotaStore({ client, rememberRefusals: false })
    const outcomes = { admitted: 0, rejected: 0, failed: 0 }
    for (let request = 0; request < 200; request++) {
      await fill().catch(() => {})
      if (hasRoom) await other.del(...Array.from({ length: 4 }, (_, key) => `other ${4 * request + key}`))
      const acquisition = await Promise.resolve(store.acquire('alice', limit)).catch(() => undefined)
      outcomes[acquisition === undefined ? 'failed' : acquisition.admitted ? 'admitted' : 'rejected'] += 1
    }
    t.comment(JSON.stringify(outcomes))
    t.ok(outcomes.admitted <= (hasRoom || policy === 'allkeys-lru' ? 2 : 1) * limit, `${outcomes.admitted} admitted`)
    t.ok(outcomes.rejected + outcomes.failed >= 200 - 2 * limit, 'the others were rejected or failed')
  })
}

t.test('a server that has lost its counters once, and is not full, counts again', async (t) => {
  const { client } = await startRedis(t)
  await client.config('SET', 'maxmemory', '1gb')
  await client.config('SET', 'maxmemory-policy', 'allkeys-lru')
  const store = new RedisQuotaStore({ client })
  for (let round = 0; round < 5; round++) {
    t.match(await store.acquire('alice', limit), { admitted: true, count: 1 })
    await client.flushall()
  }
})

t.test('the counters of an hour that a nearly full server evicts after two minutes are a failure', async (t) => {
  const { client } = await startRedis(t)
  const clock = virtualPerformance(t)
  const store = new RedisQuotaStore({ client, rememberRefusals: false }).quota('hourly', 3_600_000)
  t.match(await store.acquire('alice', limit), { admitted: true, count: 1 })
  await client.flushall()
  const [, used] = /used_memory:(\d+)/.exec(await client.info('memory')) ?? []
  await client.config('SET', 'maxmemory-policy', 'allkeys-lru')
  await client.config('SET', 'maxmemory', String(Math.round(Number(used) * 1.05)))
  clock.advance(120_000)
  await t.rejects(async () => store.acquire('alice', limit), /evicted/)
})
