// What a caller can gain from a deployment according to SECURITY.md, and that the advice there prevents it.
import fastifyHttpProxy from '@fastify/http-proxy'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { InsuredQuotaStore, localAuthentication, MemoryQuotaStore, quotaPlugin, type QuotaOptions, type QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { RedisServer } from '../support/redis-server.js'

const options: QuotaOptions = { perMinute: 3, authentication: ({ headers }) => localAuthentication(headers['x-user']) }

/** Creates a service with the quota, or a scope of a service. */
function declare (app: FastifyInstance, store?: QuotaStore): void {
  app.register(quotaPlugin, { ...options, ...(store !== undefined && { store }) })
  app.post('/api/analyze', async () => 'ran')
}

function serviceWith (store: QuotaStore): FastifyInstance {
  const app: FastifyInstance = Fastify()
  declare(app, store)
  return app
}

/** Returns how many requests of one caller are admitted, out of ten to each address. */
async function admitted (...targets: (readonly [app: FastifyInstance, url: string])[]): Promise<number> {
  let count = 0
  for (let request = 0; request < 10; request++) {
    for (const [app, url] of targets) {
      const { statusCode } = await app.inject({ method: 'POST', url, headers: { 'x-user': 'alice' } })
      if (statusCode === 200) count += 1
    }
  }
  return count
}

const analyze = '/api/analyze'

async function startRedis (t: Test, ...settings: string[]) {
  const server = await RedisServer.start(...settings)
  const client = server.client()
  t.teardown(async () => {
    client.disconnect()
    await server.stop()
  })
  return { server, client }
}

t.test('sibling scopes with separate stores admit one limit each, and with one decorated store one limit together', async (t) => {
  const separate = Fastify()
  for (const prefix of ['/one', '/two']) separate.register(async (scope) => { declare(scope) }, { prefix })
  t.equal(await admitted([separate, `/one${analyze}`], [separate, `/two${analyze}`]), 6)

  const shared = Fastify()
  shared.decorate('quotaStore', new MemoryQuotaStore())
  for (const prefix of ['/one', '/two']) shared.register(async (scope) => { declare(scope) }, { prefix })
  t.equal(await admitted([shared, `/one${analyze}`], [shared, `/two${analyze}`]), 3)
})

t.test('processes and restarts with a store in memory admit one limit each, and with a shared server one limit together', async (t) => {
  t.equal(await admitted([serviceWith(new MemoryQuotaStore()), analyze], [serviceWith(new MemoryQuotaStore()), analyze]), 6)
  const { client } = await startRedis(t)
  t.equal(await admitted([serviceWith(new RedisQuotaStore({ client })), analyze], [serviceWith(new RedisQuotaStore({ client })), analyze]), 3)
})

t.test('instances with different shards admit one limit each while both run', async (t) => {
  const { client } = await startRedis(t)
  const before = serviceWith(new RedisQuotaStore({ client, shards: 1 }))
  const after = serviceWith(new RedisQuotaStore({ client, shards: 16 }))
  t.equal(await admitted([before, analyze], [after, analyze]), 6)
  t.equal(await admitted([before, analyze], [after, analyze]), 0, 'no more requests are admitted in the same window')
})

t.test('a caller gains at most the rest of the overflow counter if instances have different caps', async (t) => {
  const { client } = await startRedis(t)
  const small = new RedisQuotaStore({ client, maxTrackedCallers: 1 })
  await small.acquire('the only one with a counter', 3)
  t.equal(await admitted([serviceWith(small), analyze]), 3, 'the overflow counter admits one limit')
  t.equal(await admitted([serviceWith(small), analyze], [serviceWith(new RedisQuotaStore({ client, maxTrackedCallers: 10 })), analyze]), 3, 'the counter of the caller then admits one limit')
  t.equal(await admitted([serviceWith(small), analyze], [serviceWith(new RedisQuotaStore({ client, maxTrackedCallers: 10 })), analyze]), 0)
})

t.test('a server that evicts keys loses counts; a server with noeviction fails, and the fallback counts', async (t) => {
  const { client } = await startRedis(t, '--maxmemory', '4mb', '--maxmemory-policy', 'allkeys-random')
  const evicting = serviceWith(new RedisQuotaStore({ client, rememberRefusals: false }))
  t.equal(await admitted([evicting, analyze]), 3)
  for (let key = 0; key < 2000 && (await client.keys('llm-quota:*')).length > 0; key++) await client.set(`of another service:${key}`, 'x'.repeat(10_000))
  t.equal(await admitted([evicting, analyze]), 3, 'one limit is admitted again in the same minute')

  await client.config('SET', 'maxmemory-policy', 'noeviction')
  await client.set('of another service', 'x'.repeat(1_000_000)).catch(() => {})
  await client.config('SET', 'maxmemory', '1mb')
  const full = serviceWith(new RedisQuotaStore({ client, keyPrefix: 'full:' }))
  const ask = async (user: string) => (await full.inject({ method: 'POST', url: analyze, headers: { 'x-user': user } })).statusCode
  // The server completes a script that began with a DEL, such as the first decision of a shard, so that decision is counted.
  await ask('somebody')
  t.equal(await ask('alice'), 503)
  t.equal(await admitted([serviceWith(new InsuredQuotaStore({ primary: new RedisQuotaStore({ client, keyPrefix: 'full:' }) })), analyze]), 3)
})

t.test('requests through a proxy on the same instance that rewrites paths are not counted, unless its routes are marked', async (t) => {
  const upstream = Fastify()
  upstream.post(analyze, async () => 'ran')
  t.teardown(() => upstream.close())
  const address = await upstream.listen({ host: '127.0.0.1', port: 0 })
  for (const [config, expected] of [[{}, 10], [{ quota: true }, 3]] as const) {
    const app: FastifyInstance = Fastify()
    await app.register(quotaPlugin, options)
    await app.register(fastifyHttpProxy, { upstream: address, prefix: '/internal', rewritePrefix: '/api', config })
    t.equal(await admitted([app, '/internal/analyze']), expected, JSON.stringify(config))
    await app.close()
  }
})

t.test('the path that the service receives decides behind a proxy that changes paths', async (t) => {
  const service = serviceWith(new MemoryQuotaStore())
  t.teardown(() => service.close())
  const proxy = Fastify()
  await proxy.register(fastifyHttpProxy, { upstream: await service.listen({ host: '127.0.0.1', port: 0 }), prefix: '/public', rewritePrefix: '/api' })
  t.teardown(() => proxy.close())
  t.equal(await admitted([proxy, '/public/analyze']), 3)
})

t.test('only routes in the scope that registers the plugin, including its child scopes, are counted', async (t) => {
  const app = Fastify()
  app.register(async (scope) => {
    await scope.register(quotaPlugin, options)
    scope.register(async (inner) => { inner.post(analyze, async () => 'ran') })
  })
  app.post(analyze.toUpperCase(), async () => 'ran')
  t.equal(await admitted([app, analyze]), 3)
  t.equal(await admitted([app, analyze.toUpperCase()]), 10)
})

t.test('a request that an HTTP client sends again after its answer was lost is counted twice', async (t) => {
  const app = serviceWith(new MemoryQuotaStore())
  t.teardown(() => app.close())
  const abort = new AbortController()
  app.addHook('onSend', async () => { abort.abort() })
  const address = await app.listen({ host: '127.0.0.1', port: 0 })
  await t.rejects(fetch(`${address}${analyze}`, { method: 'POST', headers: { 'x-user': 'alice' }, signal: abort.signal }))
  t.equal(await admitted([app, analyze]), 2)
})
