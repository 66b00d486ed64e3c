// A rejection that arrived after the counters were cleared was remembered, so its caller was still rejected.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)

const reliefs: Record<string, (store: RedisQuotaStore) => Promise<void>> = {
  clearCounters: (store) => store.clearCounters(),
  forget: (store) => store.forget('alice')
}

for (const [name, relieve] of Object.entries(reliefs)) {
  t.test(`a rejection that is in flight during ${name} is not remembered`, async (t) => {
    await client.flushall()
    const store = new RedisQuotaStore({ client })
    await store.acquire('alice', 1)
    const rejection = store.acquire('alice', 1)
    const relieved = relieve(store)
    t.match(await rejection, { admitted: false })
    await relieved
    t.match(await store.acquire('alice', 1), { admitted: true, count: 1 })
  })

  t.test(`a rejection that overtakes ${name} on another connection is not remembered`, async (t) => {
    await client.flushall()
    let reach = () => {}
    const reached = new Promise<void>((resolve) => { reach = resolve })
    const store = new RedisQuotaStore({
      client: {
        evaluateDigest: (digest, key, parameters) => client.evalsha(digest, 1, key, ...parameters),
        // The script of forget, which is sent as source first, waits for the rejection.
        async evaluateSource (source, key, parameters) {
          if (!source.includes('HSCAN')) await reached
          return client.eval(source, 1, key, ...parameters)
        },
        async removeKey (key) {
          await reached
          return client.unlink(key)
        }
      }
    })
    await store.acquire('alice', 1)
    const relieved = relieve(store)
    t.match(await store.acquire('alice', 1), { admitted: false })
    reach()
    await relieved
    t.match(await store.acquire('alice', 1), { admitted: true, count: 1 })
  })
}
