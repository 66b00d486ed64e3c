// Every client of one server: the same results, whatever its options for replies, key prefixes and pipelining.
import t from 'tap'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { quotaStoreContract } from '../../lib/testing.js'
import { singleClients } from '../support/redis-clients.js'
import { serverVersion, startRedis } from '../support/redis-server.js'

const { server, client: observer } = await startRedis(t)
t.comment(serverVersion())

const key = (name: string) => String(callerKey(localAuthentication(name)))

for (const [name, connect] of Object.entries(singleClients)) {
  t.test(`the store has correct results with ${name}`, async (t) => {
    await observer.flushall()
    const { client, close } = await connect([server.port])
    t.teardown(close)

    let stores = 0
    for (const check of quotaStoreContract((options) => new RedisQuotaStore({ client, keyPrefix: `contract-${++stores}:`, ...options }))) {
      t.test(check.name, check.run)
    }

    t.test('the store sends a script again after the server has lost it, even if decisions are in flight', async (t) => {
      const store = new RedisQuotaStore({ client, keyPrefix: 'flushed:' })
      const counts: number[] = []
      for (let round = 0; round < 5; round++) {
        const acquisitions = Promise.all(Array.from({ length: 20 }, async () => store.acquire(key('alice'), 1_000)))
        await observer.script('FLUSH')
        counts.push(...(await acquisitions).map(({ count }) => count))
      }
      t.same(counts.sort((one, other) => one - other), Array.from({ length: 100 }, (_, index) => index + 1), 'each request is counted once')
    })

    t.test('each key has the prefixes of the client and of the store, and clearCounters removes it', async (t) => {
      await observer.flushall()
      const store = new RedisQuotaStore({ client, keyPrefix: 'mine:' })
      await store.acquire(key('alice'), 1)
      const prefix = name.includes('a key prefix') ? 'all:mine:' : 'mine:'
      const keys = await observer.keys('*')
      t.ok(keys.length > 0 && keys.every((key) => key.startsWith(prefix)), keys.join(' '))
      await store.clearCounters()
      t.same(await observer.keys('*'), [])
    })

    t.test('acquire rejects with the error of the server', async (t) => {
      const store = new RedisQuotaStore({ client, keyPrefix: 'wrong:' })
      await store.acquire(key('alice'), 1)
      for (const key of await observer.keys('*wrong:*')) await observer.multi().del(key).set(key, 'another program\'s').exec()
      await t.rejects(async () => store.acquire(key('bob'), 1), /WRONGTYPE/)
    })
  })
}
