// On a server whose memory was full, every request was admitted: the counters were evicted before
// the next decision, or created although the server had no memory for them.
import type { Redis } from 'ioredis'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'
import { virtualPerformance } from '../support/virtual-performance.js'
import { acquireOne } from '../support/told-store.js'

const limit = 5

// With room for a moment, the counters are created and evicted again.
const cases = ['noeviction', 'volatile-lru', 'volatile-ttl', 'allkeys-lru'].flatMap((policy) =>
  [false, true].map((hasRoom) => ({ policy, hasRoom }))
)

for (const { policy, hasRoom } of cases) {
  t.test(
    'no caller is admitted more often than its limit on a server that is full of other ' +
      `data${hasRoom ? ', with room for a moment' : ''}, with ${policy}`,
    async (t) => {
      const { server, client } = await startRedis(t)
      const other = server.client()
      t.teardown(() => {
        other.disconnect()
      })
      await client.config('SET', 'maxmemory', String((await usedMemory(client)) + 4_000_000))
      await client.config('SET', 'maxmemory-policy', 'noeviction')
      let keys = 0
      const fill = () => other.set(`other ${keys++}`, 'x'.repeat(2_000))
      await t.rejects(async () => {
        for (;;) await fill()
      }, /OOM/)
      await client.config('SET', 'maxmemory-policy', policy)

      const store = new RedisQuotaStore({ client, rememberRejections: false })
      let admitted = 0
      for (let request = 0; request < 200; request++) {
        // The server stays full: as much is written as is deleted.
        for (let key = 0; key < 4; key++) await fill().catch(() => {})
        if (hasRoom) {
          await other.del(...Array.from({ length: 4 }, (_, key) => `other ${4 * request + key}`))
        }
        if (
          (await acquireOne(store, 'alice', { limit }).catch(() => undefined))?.admitted === true
        ) {
          admitted += 1
        }
      }
      t.ok(admitted <= limit, `${admitted} admitted`)
    }
  )
}

t.test(
  'no caller is admitted more often than its limit if a full server evicts the counters ' +
    'again and again',
  async (t) => {
    const { server, client } = await startRedis(t)
    await setMemory(client, 'allkeys-lru', 1.05)
    const another = server.client()
    t.teardown(() => {
      another.disconnect()
    })
    const stores = [client, another].map(
      (client) => new RedisQuotaStore({ client, rememberRejections: false })
    )
    for (const store of stores) await acquireOne(store, 'bob', { limit })
    let admitted = 0
    for (let round = 0; round < 20; round++) {
      const decisions = stores.flatMap((store) =>
        Array.from({ length: 10 * limit }, () => acquireOne(store, 'alice', { limit }))
      )
      for (const decision of await Promise.allSettled(decisions)) {
        if (decision.status === 'fulfilled' && decision.value.admitted) admitted += 1
      }
      await client.del('llm-quota:{0}')
    }
    t.equal(admitted, limit)
    await stores[0]?.clearCounters()
    if (stores[0] !== undefined) {
      t.match(await acquireOne(stores[0], 'alice', { limit }), { count: 1 }, 'no loss')
    }
  }
)

for (const [policy, memory, isEvicted] of [
  ['allkeys-lru', 1.05, true],
  ['allkeys-lru', 1.2, false],
  ['allkeys-lru', 0, false],
  ['noeviction', 1.05, false]
] as const) {
  t.test(
    `the loss of an hour's counters is ${isEvicted ? 'a failure' : 'none'} with ${policy} ` +
      `and ${memory} times the memory in use`,
    async (t) => {
      const { client } = await startRedis(t)
      const clock = virtualPerformance(t)
      const store = new RedisQuotaStore({ client, rememberRejections: false })
      const hourly = { limit, counters: 'hourly', window: 3_600_000 }
      t.match(await acquireOne(store, 'alice', hourly), { admitted: true, count: 1 })
      await client.flushall()
      await setMemory(client, policy, memory)
      clock.advance(120_000)
      if (isEvicted) await t.rejects(() => acquireOne(store, 'alice', hourly), /EVICTED/)
      else t.match(await acquireOne(store, 'alice', hourly), { admitted: true, count: 1 })
      clock.advance(3_600_000)
      t.match(await acquireOne(store, 'alice', hourly), {
        admitted: true,
        count: isEvicted ? 1 : 2
      })
    }
  )
}

async function usedMemory (client: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1])
}

/**
 * @param memory How much memory the server may use, relative to what it uses. A twentieth is enough
 * for scripts.
 */
async function setMemory (client: Redis, policy: string, memory: number): Promise<void> {
  await client.setrange('of another service', 20_000_000, 'x')
  await client.config('SET', 'maxmemory-policy', policy)
  await client.config('SET', 'maxmemory', String(Math.round((await usedMemory(client)) * memory)))
}
