// What a caller can gain from a deployment according to SECURITY.md, and that the advice there prevents it.
import fastifyHttpProxy from '@fastify/http-proxy'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import { localAuthentication, MemoryQuotaStore, quotaPlugin, type QuotaOptions } from '../../lib/index.js'

const analyze = '/api/analyze'
const options: QuotaOptions = { perMinute: 3, authentication: ({ headers }) => localAuthentication(String(headers['x-user'])) }

/** Adds the quota and an operation to a service, or to a scope of a service. */
async function protect (app: FastifyInstance): Promise<void> {
  await app.register(quotaPlugin, options)
  app.post(analyze, async () => 'ran')
}

async function createService (): Promise<FastifyInstance> {
  const app: FastifyInstance = Fastify()
  await protect(app)
  return app
}

/** Returns how many requests of one caller are admitted, out of ten to each address. */
async function admitted (...targets: (readonly [app: FastifyInstance, url: string])[]): Promise<number> {
  const statuses = []
  for (let request = 0; request < 10; request++) {
    for (const [app, url] of targets) statuses.push((await app.inject({ method: 'POST', url, headers: { 'x-user': 'alice' } })).statusCode)
  }
  return statuses.filter((status) => status === 200).length
}

t.test('sibling scopes with separate stores admit one limit each, and with one decorated store one limit together', async (t) => {
  for (const [store, expected] of [[undefined, 6], [new MemoryQuotaStore(), 3]] as const) {
    const app = Fastify()
    if (store !== undefined) app.decorate('quotaStore', store)
    for (const prefix of ['/one', '/two']) app.register(protect, { prefix })
    t.equal(await admitted([app, `/one${analyze}`], [app, `/two${analyze}`]), expected)
  }
})

t.test('processes and restarts with a store in memory admit one limit each', async (t) => {
  t.equal(await admitted([await createService(), analyze], [await createService(), analyze]), 6)
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
  const service = await createService()
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

t.test('a request that an HTTP client sends again after its response was lost is counted twice', async (t) => {
  const app = await createService()
  t.teardown(() => app.close())
  const abort = new AbortController()
  app.addHook('onSend', async () => { abort.abort() })
  const address = await app.listen({ host: '127.0.0.1', port: 0 })
  await t.rejects(fetch(`${address}${analyze}`, { method: 'POST', headers: { 'x-user': 'alice' }, signal: abort.signal }))
  t.equal(await admitted([app, analyze]), 2)
})
