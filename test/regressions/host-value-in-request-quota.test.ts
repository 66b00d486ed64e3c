// A value that a host wrote to request.quota was treated as a decision, and the request was not counted.
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, type QuotaOptions } from '../../lib/index.js'

const options: QuotaOptions = { perMinute: 1, authentication: () => localAuthentication('alice') }

function write (request: FastifyRequest, value: unknown): void {
  Reflect.set(request, 'quota', value)
}

async function statuses (app: FastifyInstance): Promise<number[]> {
  const answers = []
  for (let request = 0; request < 2; request++) answers.push((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode)
  return answers
}

t.test('a value that the host writes to request.quota before the decision does not affect it', async (t) => {
  for (const value of [{ tenant: 'x' }, 7, 'admitted', null, { outcome: 'admitted' }]) {
    const app = Fastify()
    app.addHook('onRequest', async (request) => { write(request, value) })
    await app.register(quotaPlugin, options)
    app.post('/api/analyze', async (request) => request.quota)
    t.match((await app.inject({ method: 'POST', url: '/api/analyze' })).json(), { outcome: 'admitted', count: 1 }, 'request.quota holds the decision')
    t.same(await statuses(app), [429, 429])
  }
})

t.test('a request decorator quota in a scope that was created before the plugin does not affect the decision', async (t) => {
  const app = Fastify()
  app.addHook('preHandler', async () => {})
  await app.register(async (scope) => {
    scope.decorateRequest('quota', JSON.parse('7'))
    scope.after(() => { scope.post('/api/analyze', async (request) => request.quota) })
  })
  await app.register(quotaPlugin, options)
  t.same(await statuses(app), [200, 429])
})

t.test('the host reads its own value until the decision, then the decision, and then what it writes again', async (t) => {
  const app = Fastify()
  const read: unknown[] = []
  await app.register(quotaPlugin, {
    authentication: async (request) => {
      await null
      read.push(request.quota)
      return localAuthentication('alice')
    }
  })
  app.addHook('onRequest', async (request) => { write(request, 'of the host') })
  app.post('/api/analyze', async (request) => {
    read.push(request.quota?.outcome)
    write(request, null)
    read.push(request.quota)
  })
  await app.inject({ method: 'POST', url: '/api/analyze' })
  t.same(read, ['of the host', 'admitted', null])
})

t.test('a request that passes the hooks again is counted once, whatever the host writes in between', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { ...options, perMinute: 2 })
  app.setNotFoundHandler((request, reply) => { reply.code(404).send({ count: request.quota?.count }) })
  app.post('/api/analyze', (request, reply) => {
    if (request.headers['x-forget'] === 'yes') write(request, null)
    reply.callNotFound()
  })
  t.same((await app.inject({ method: 'POST', url: '/api/analyze' })).json(), { count: 1 })
  t.equal((await app.inject({ method: 'POST', url: '/api/analyze', headers: { 'x-forget': 'yes' } })).statusCode, 404)
  t.equal((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode, 429)
})
