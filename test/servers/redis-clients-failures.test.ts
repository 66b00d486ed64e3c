// Connections and servers that fail, with each client: nothing is counted twice, and the client
// recovers by itself.
import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t from 'tap'
import { FaultyProxy } from '../../chaos/faulty-proxy.js'
import type { QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { acquireOne, demand, estimate } from '../support/demands.js'
import { quiet, singleClients } from '../support/redis-clients.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'

const { server, client: direct } = await startRedis(t)
const proxy = await FaultyProxy.start(server.port)
t.teardown(() => proxy.stop())

/** Waits until a client has reconnected, which takes a different time with each client. */
async function recovered (store: QuotaStore): Promise<void> {
  for (let attempt = 0; attempt < 1_000; attempt++) {
    if ((await acquireOne(store, 'another').catch(() => wait(20))) !== undefined) return
  }
  throw new Error('the client did not recover')
}

const clients = Object.entries(singleClients).filter(([name]) => !/key prefix|wrapper/.test(name))

for (const [name, connect] of clients) {
  t.test(
    `a decision of ${name} whose reply is cut off is counted once, and its promise rejects`,
    async (t) => {
      const options = { keyPrefix: `${name}, cut:`, rememberRejections: false }
      const { client, close } = await connect([proxy.port])
      t.teardown(close)
      const store = new RedisQuotaStore({ client, ...options })
      await acquireOne(store, 'another')
      proxy.cut(1, /\r\nEVAL/i)
      await t.rejects(acquireOne(store, 'alice'))
      proxy.cut(0)
      await recovered(store)
      t.match(await new RedisQuotaStore({ client: direct, ...options }).peek(demand('alice')), {
        count: 1
      })
    }
  )
}

t.test(
  'decisions of each client fail while the server is not running, and succeed after it has ' +
    'restarted',
  async (t) => {
    const subjects = await Promise.all(
      clients.map(async ([name, connect]) => {
        const options = { keyPrefix: `${name}, restarted:`, rememberRejections: false }
        const { client, close } = await connect([server.port])
        const store = new RedisQuotaStore({ client, ...options })
        const observer = new RedisQuotaStore({ client: direct, ...options })
        await acquireOne(store, 'alice')
        return { name, close, store, observer }
      })
    )
    await server.kill()
    await Promise.all(
      subjects.map(({ name, store }) => t.rejects(acquireOne(store, 'alice'), name))
    )
    await server.start()
    for (const { name, close, store, observer } of subjects) {
      await recovered(store)
      t.match(await acquireOne(store, 'alice'), { admitted: true, count: 1 }, name)
      await close()
      await t.rejects(
        acquireOne(store, 'alice'),
        `a decision of ${name} fails after the host has closed the client`
      )
      await recovered(observer)
      t.match(await observer.peek(demand('alice')), { count: 1 }, name)
    }
  }
)

t.test('a client that sends a call again settles once, and says so', async (t) => {
  const ioredis = new Redis({ port: proxy.port, retryStrategy: () => 20 })
  const { client, close } = quiet(ioredis)
  t.teardown(close)
  const store = new RedisQuotaStore({ client, keyPrefix: 'sent twice:' })
  for (const once of [undefined, 'a text']) {
    const callerKey = `alice ${once}`
    const { receipt } = await acquireOne(store, callerKey, estimate(100, { limit: 100 }))
    await acquireOne(store, callerKey, { ...estimate(900), limit: 1_000 })
    await direct.config('RESETSTAT')
    proxy.cut(1, /\r\nEVAL/i)
    t.equal(await store.settle(receipt, { count: 100, held: 100 }, once), once && true)
    t.match(await direct.info('commandstats'), /cmdstat_evalsha:calls=2,/, 'it was sent twice')
    const left = await store.peek(demand(callerKey, estimate()))
    t.match(left, { count: 900, held: 900 })
  }
})

t.test('a call that is sent again, and then refused, settles once', async (t) => {
  const ioredis = new Redis({ port: proxy.port, retryStrategy: () => 100 })
  const { client, close } = quiet(ioredis)
  t.teardown(close)
  t.teardown(() => direct.config('SET', 'maxmemory', '0'))
  const store = new RedisQuotaStore({ client, keyPrefix: 'sent twice, refused:' })
  const { receipt } = await acquireOne(store, 'alice', estimate(100, { limit: 100 }))
  await acquireOne(store, 'alice', { ...estimate(900), limit: 1_000 })
  await direct.config('RESETSTAT')
  proxy.cut(1, /\r\nEVAL/i)
  const settling = store.settle(receipt, { count: 70, held: 100 })
  const asking = acquireOne(store, 'bob')
  await hasRun(1)
  await direct.config('SET', 'maxmemory', '1')
  await t.rejects(asking, /OOM/)
  await hasRun(2)
  await direct.config('SET', 'maxmemory', '0')
  t.match(await store.peek(demand('alice', estimate())), { count: 930, held: 900 })
  await settling
})

/** Waits until the server has run so many scripts. */
async function hasRun (count: number): Promise<void> {
  await until(`${count} scripts have run`, async () =>
    (await direct.info('commandstats')).includes(`cmdstat_evalsha:calls=${count},`)
  )
}
