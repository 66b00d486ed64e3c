// What a caller can gain from a deployment according to SECURITY.md, and that the advice there prevents it.
import fastifyHttpProxy from '@fastify/http-proxy'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import { localAuthentication, MemoryQuotaStore, quotaPlugin } from '../../lib/index.js'

const options = { perMinute: 3, authentication: () => localAuthentication('alice') }

async function protect (app: FastifyInstance): Promise<void> {
  await app.register(quotaPlugin, options)
  app.post('/api/analyze', async () => 'ran')
}

/** Returns how many requests of one caller are admitted, out of ten to each address. */
async function admitted (app: FastifyInstance, ...urls: string[]): Promise<number> {
  const statuses = []
  for (let request = 0; request < 10; request++) for (const url of urls) statuses.push((await app.inject({ method: 'POST', url })).statusCode)
  return statuses.filter((status) => status === 200).length
}

t.test('sibling scopes with separate stores admit one limit each, and with one decorated store one limit together', async (t) => {
  for (const [store, expected] of [[undefined, 6], [new MemoryQuotaStore(), 3]] as const) {
    const app = Fastify()
    if (store !== undefined) app.decorate('quotaStore', store)
    for (const prefix of ['/one', '/two']) app.register(protect, { prefix })
    t.equal(await admitted(app, '/one/api/analyze', '/two/api/analyze'), expected)
  }
})

t.test('requests through a proxy on the same instance that rewrites paths are not counted, unless its routes are marked', async (t) => {
  const upstream = Fastify()
  upstream.post('/api/analyze', async () => 'ran')
  t.teardown(() => upstream.close())
  const address = await upstream.listen({ host: '127.0.0.1', port: 0 })
  for (const [config, expected] of [[{}, 10], [{ quota: true }, 3]] as const) {
    const app: FastifyInstance = Fastify()
    await app.register(quotaPlugin, options)
    await app.register(fastifyHttpProxy, { upstream: address, prefix: '/internal', rewritePrefix: '/api', config })
    t.equal(await admitted(app, '/internal/analyze'), expected, JSON.stringify(config))
    await app.close()
  }
})
