// With the client's option stringNumbers, every decision failed because the reply of the server was not recognised.
import { Redis } from 'ioredis'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { RedisServer } from '../support/redis-server.js'

t.test('the store accepts replies in which the client returns numbers as strings', async (t) => {
  const server = await RedisServer.start()
  const client = new Redis({ port: server.port, host: '127.0.0.1', stringNumbers: true })
  t.teardown(async () => {
    client.disconnect()
    await server.stop()
  })
  const store = new RedisQuotaStore({ client })
  t.match(await store.acquire('alice', 2), { admitted: true, count: 1, overflow: false })
  const together = await Promise.all(['alice', 'bob', 'carol'].map((caller) => store.acquire(caller, 2)))
  t.same(together.map(({ count }) => count), [2, 1, 1])
  t.match(await store.peek('alice'), { count: 2, overflow: false })
  t.equal(await store.peek('nobody'), null)
  t.same(await store.inspect(), { trackedCallers: 3, sweeps: 0 })
})
