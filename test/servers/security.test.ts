// What a caller can gain from a deployment with a shared server according to SECURITY.md.
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import { InsuredQuotaStore, localAuthentication, quotaPlugin, type QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore, type RedisQuotaStoreOptions } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'

function serviceOf (store: QuotaStore): FastifyInstance {
  const app: FastifyInstance = Fastify()
  app.register(quotaPlugin, { store, perMinute: 3, authentication: () => localAuthentication('alice') })
  app.post('/api/analyze', async () => 'ran')
  return app
}

const serviceWith = (options: RedisQuotaStoreOptions) => serviceOf(new RedisQuotaStore(options))

async function ask (app: FastifyInstance): Promise<number> {
  return (await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode
}

/** Returns how many requests of one caller are admitted, out of ten to each service. */
async function admitted (...services: FastifyInstance[]): Promise<number> {
  let count = 0
  for (let request = 0; request < 10; request++) {
    for (const service of services) if (await ask(service) === 200) count += 1
  }
  return count
}

t.test('processes with a shared server admit one limit together', async (t) => {
  const { client } = await startRedis(t)
  t.equal(await admitted(serviceWith({ client }), serviceWith({ client })), 3)
})

t.test('instances with different shards admit one limit each while both run', async (t) => {
  const { client } = await startRedis(t)
  const before = serviceWith({ client, shards: 1 })
  const after = serviceWith({ client, shards: 16 })
  t.equal(await admitted(before, after), 6)
  t.equal(await admitted(before, after), 0, 'no more requests are admitted in the same window')
})

t.test('a caller gains at most the rest of the overflow counter if instances have different caps', async (t) => {
  const { client } = await startRedis(t)
  const small = new RedisQuotaStore({ client, maxTrackedCallers: 1 })
  await small.acquire([{ counters: 'default', callerKey: 'the only one with a counter', limit: 3, cost: 1, window: 60_000, end: null }])
  t.equal(await admitted(serviceOf(small)), 3, 'the overflow counter admits one limit')
  t.equal(await admitted(serviceOf(small), serviceWith({ client, maxTrackedCallers: 10 })), 3, 'the counter of the caller then admits one limit')
  t.equal(await admitted(serviceOf(small), serviceWith({ client, maxTrackedCallers: 10 })), 0)
})

t.test('a server that evicts keys loses counts; a server with noeviction fails, and the fallback counts', async (t) => {
  const { client } = await startRedis(t)
  await client.config('SET', 'maxmemory-policy', 'allkeys-random')
  await client.config('SET', 'maxmemory', '4mb')
  const evicting = serviceWith({ client, rememberRejections: false })
  t.equal(await admitted(evicting), 3)
  for (let key = 0; key < 2000 && (await client.keys('llm-quota:*')).length > 0; key++) await client.set(`of another service:${key}`, 'x'.repeat(10_000))
  t.equal(await admitted(evicting), 0, 'decisions that find the counters lost fail')
  t.ok(await admitted(serviceWith({ client, rememberRejections: false })) <= 3, 'at most one more limit is admitted by another instance')

  await client.config('SET', 'maxmemory-policy', 'noeviction')
  await client.set('of another service', 'x'.repeat(1_000_000)).catch(() => {})
  await client.config('SET', 'maxmemory', '1mb')
  const full = serviceWith({ client, keyPrefix: 'full:' })
  t.equal(await ask(full), 503)
  t.equal(await admitted(serviceOf(new InsuredQuotaStore({ primary: new RedisQuotaStore({ client, keyPrefix: 'full:' }) }))), 3)
})
