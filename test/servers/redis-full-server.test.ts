// On a server whose memory was full, every request was admitted: the counters were created although
// the server had no memory for them.
import type { Redis } from 'ioredis'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { acquireOne, demand, estimate } from '../support/demands.js'
import { startRedis } from '../support/redis-server.js'

const limit = 5

for (const hasRoom of [false, true]) {
  t.test(
    'no caller is admitted more often than its limit on a server that is full and evicts nothing' +
      (hasRoom ? ', with room for a moment' : ''),
    async (t) => {
      const { server, client } = await startRedis(t)
      const other = server.client()
      t.teardown(() => {
        other.disconnect()
      })
      await client.config('SET', 'maxmemory-policy', 'noeviction')
      await client.config('SET', 'maxmemory', String((await usedMemory(client)) + 4_000_000))
      let keys = 0
      const fill = () => other.set(`other ${keys++}`, 'x'.repeat(2_000))
      await t.rejects(async () => {
        for (;;) await fill()
      }, /OOM/)

      const store = new RedisQuotaStore({ client, rememberRejections: false })
      let admitted = 0
      let failed = 0
      for (let request = 0; request < 200; request++) {
        // The server stays full: as much is written as is deleted.
        for (let key = 0; key < 4; key++) await fill().catch(() => {})
        if (hasRoom) {
          await other.del(...Array.from({ length: 4 }, (_, key) => `other ${4 * request + key}`))
        }
        try {
          if ((await acquireOne(store, 'alice', { limit })).admitted) admitted += 1
        } catch (error) {
          t.match(error, { message: /OOM/ })
          failed += 1
        }
      }
      if (!hasRoom) t.equal(failed, 200)
      t.ok(admitted <= limit, `${admitted} admitted`)
      await client.config('SET', 'maxmemory', '0')
      const { count } = await acquireOne(store, 'alice', { limit: 1_000 })
      t.equal(count, admitted + 1, 'a decision that fails has changed nothing')
    }
  )
}

t.test('a settlement waits while the server is full, and the requests fail', async (t) => {
  const { client } = await startRedis(t)
  const store = new RedisQuotaStore({ client, rememberRejections: false })
  const { receipt } = await acquireOne(store, 'alice', estimate(3))
  await client.config('SET', 'maxmemory', '1')
  const settled = store.settle(receipt, { count: 2, held: 3 })
  await t.rejects(acquireOne(store, 'bob'), { message: /OOM/ })
  await client.config('SET', 'maxmemory', '0')
  await settled
  t.match(await store.peek(demand('alice', estimate())), { count: 1, held: 0 })
})

t.test(
  'a server that is full and evicts counters decides on every request, and their callers begin ' +
    'new windows',
  async (t) => {
    const { client } = await startRedis(t)
    const store = new RedisQuotaStore({ client, rememberRejections: false })
    const hourly = { counters: 'chat.requests.hour', window: 3_600_000, limit: 1 }
    await acquireOne(store, 'alice', hourly)
    t.match(await acquireOne(store, 'alice', hourly), { admitted: false, count: 1 })
    await client.setrange('of another service', 20_000_000, 'x')
    await client.config('SET', 'maxmemory-policy', 'volatile-lru')
    // What is left is enough for scripts.
    await client.config('SET', 'maxmemory', String(Math.round((await usedMemory(client)) * 1.05)))

    await client.unlink('llm-quota:{llm-quota:}v9:windows:chat.requests.hour')
    t.match(await acquireOne(store, 'alice', hourly), { admitted: true, count: 1 })
    await store.clearCounters()
    t.match(await acquireOne(store, 'bob', hourly), { admitted: true, count: 1 })
    t.equal(await store.peek(demand('alice', hourly)), null)
  }
)

async function usedMemory (client: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1])
}
