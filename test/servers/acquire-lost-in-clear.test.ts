// clearCounters of an insured store cleared the primary one turn late, so a request that followed immediately was counted first and
// then cleared as well.
import t from 'tap'
import { InsuredQuotaStore, MemoryQuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'

t.test('a request that follows clearCounters keeps its count', async (t) => {
  const { client } = await startRedis(t)
  for (const primary of [new MemoryQuotaStore(), new RedisQuotaStore({ client })]) {
    const store = new InsuredQuotaStore({ primary, timeout: 5_000 })
    await store.acquire('a', 1)
    const cleared = store.clearCounters()
    t.match(await store.acquire('a', 1), { admitted: true, count: 1 })
    await cleared
    t.match(await store.acquire('a', 1), { admitted: false, count: 1 })
    t.match(await store.acquire('a', 2), { admitted: true, count: 2 })
  }
})
