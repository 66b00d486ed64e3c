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

t.test('the host reads back the value that it wrote to request.quota, and the value does not change a decision', async (t) => {
  const app = Fastify()
  let read: unknown
  await app.register(quotaPlugin, options)
  app.addHook('preHandler', async (request) => {
    write(request, 'of the host')
    read = request.quota
  })
  app.post('/api/analyze', async () => 'ran')
  app.get('/other', async (request) => String(request.quota))
  t.same(await statuses(app), [200, 429])
  t.equal(read, 'of the host')
  t.equal((await app.inject('/other')).body, 'of the host')
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

t.test('a host that changes the state of the plugin on the request does not affect the decision', async (t) => {
  const kept = (request: FastifyRequest) => Object.getOwnPropertySymbols(request).filter((symbol) => symbol.description === 'fastify-llm-quota')
  let earlier: unknown
  const attempts: ((request: FastifyRequest, symbol: symbol, state: object) => void)[] = [
    (_request, _symbol, state) => { Object.assign(state, { isClaimed: true, decision: { outcome: 'admitted' }, '#isClaimed': true }) },
    (_request, _symbol, state) => { Object.freeze(state) },
    (request, symbol) => { Reflect.set(request, symbol, earlier) },
    (request, symbol, state) => { Reflect.set(request, symbol, Reflect.construct(Object(state).constructor, [request])) },
    (request, symbol) => { Reflect.deleteProperty(request, symbol) },
    (request, symbol) => { Reflect.set(request, symbol, { isClaimed: true, request }) },
    (_request, _symbol, state) => {
      for (const holder of [Object.getPrototypeOf(state), Object(state).constructor]) {
        for (const key of Reflect.ownKeys(holder)) {
          const member: unknown = Reflect.get(holder, key)
          if (typeof member === 'function' && key !== 'constructor') Reflect.apply(member, state, [state])
        }
      }
    }
  ]
  for (const attempt of attempts) {
    const app = Fastify()
    app.addHook('onRequest', async (request) => {
      write(request, null)
      const [symbol] = kept(request)
      if (symbol === undefined) throw new Error('the state was not found')
      attempt(request, symbol, Object(Reflect.get(request, symbol)))
    })
    await app.register(quotaPlugin, options)
    app.post('/api/analyze', async (request) => {
      for (const symbol of kept(request)) earlier = Reflect.get(request, symbol)
      return 'ran'
    })
    t.same(await statuses(app), [200, 429], String(attempt))
  }
})

t.test('a request with a forged state in the prototype chain is not admitted', async (t) => {
  const app = Fastify()
  let runs = 0
  app.addHook('onRequest', async (request) => {
    write(request, null)
    for (const symbol of Object.getOwnPropertySymbols(request)) {
      if (symbol.description === 'fastify-llm-quota') Reflect.set(request, symbol, Object.create(Reflect.get(request, symbol)))
    }
  })
  await app.register(quotaPlugin, options)
  app.post('/api/analyze', async () => { runs += 1 })
  t.same(await statuses(app), [500, 500])
  t.equal(runs, 0)
})
