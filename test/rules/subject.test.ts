// docs/rules.md, "Subject": operations. Their spellings and marked routes have files of their own.
import Fastify, { type HTTPMethods } from 'fastify'
import t from 'tap'
import quotaPlugin, { protectedOperations, type QuotaOptions } from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { createServer } from '../support/server.js'

const ran = async () => 'ran'

/**
 * Returns the statuses of a service for requests without a caller: 401 for those that are subject
 * to the quota. Each route is served.
 */
async function statusesOf (
  routes: readonly { method: HTTPMethods; url: string }[],
  options: QuotaOptions = {}
) {
  const app = Fastify()
  await app.register(quotaPlugin, options)
  for (const route of routes) app.route({ ...route, exposeHeadRoute: false, handler: ran })
  return Promise.all(routes.map(async (route) => (await app.inject(route)).statusCode))
}

t.test('the quota applies to exactly the four operations', async (t) => {
  t.same(protectedOperations, [
    { method: 'POST', path: '/api/analyze' },
    { method: 'POST', path: '/api/justify-leaf' },
    { method: 'GET', path: '/api/analyze-stream' },
    { method: 'GET', path: '/api/analyze-node' }
  ])
  t.ok(Object.isFrozen(protectedOperations) && protectedOperations.every(Object.isFrozen))
  const methods = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD'] as const
  const routes = protectedOperations.flatMap(({ method, path }) =>
    methods.map((other) => ({ method: other, url: path, status: other === method ? 401 : 200 }))
  )
  t.same(
    await statusesOf(routes),
    routes.map(({ status }) => status),
    'another method is not subject'
  )
  const others = [
    '/',
    '/api',
    '/api/analyze/',
    '/api/analyze/x',
    '/api/analyz',
    '/api/analyzer',
    '/API/ANALYZE',
    '/x/api/analyze',
    '/api/analyze-tree'
  ].map((url) => ({ method: 'POST' as const, url }))
  t.same(await statusesOf(others), others.map(() => 200), 'another path is not subject')
})

t.test('of a route with several methods, each is subject by itself', async (t) => {
  const methods: HTTPMethods[] = ['PUT', 'POST', 'DELETE']
  for (const order of [methods, methods.toReversed()]) {
    const app = Fastify()
    await app.register(quotaPlugin)
    app.route({ method: methods, url: '/api/analyze', handler: ran })
    for (const method of [...order, ...order]) {
      const { statusCode } = await app.inject({ method: method as 'PUT', url: '/api/analyze' })
      t.equal(statusCode, method === 'POST' ? 401 : 200, `${method} of ${order}`)
    }
  }
})

t.test('requests that do not match pass unchanged and are never counted', async (t) => {
  const { app, ask, store } = await createServer({ perMinute: 1 })
  app.post('/other', async ({ body, quota }) => ({ body, decisions: quota.decisions }))
  const payload = { text: 'as it was' }
  for (let request = 0; request < 5; request++) {
    const { json } = await ask({ url: '/other', payload })
    t.same(json(), { body: payload, decisions: [] })
  }
  t.same(store.inspect('default'), { trackedCallers: 0, sweeps: 0 })
})

t.test(
  'an admitted request reaches the operation, and the quota adds no headers to its response',
  async (t) => {
    const unlimited = await (await createServer({ perMinute: 0 })).ask()
    const admitted = await (await createServer()).ask()
    matchExactly(t, admitted.json(), [{ outcome: 'admitted' }])
    t.same(Object.keys(admitted.headers), Object.keys(unlimited.headers))
    t.notOk(Object.keys(admitted.headers).some((name) => /limit|retry/i.test(name)))
  }
)

t.test(
  'routes and scopes that are declared before the plugin are protected, whatever their constraints',
  async (t) => {
    const app = Fastify()
    app.post('/api/analyze', { constraints: { host: 'one.example' } }, ran)
    app.post('/api/analyze', { constraints: { version: '2.0.0' } }, ran)
    await app.register(async (scope) => {
      scope.decorateRequest('ofTheScope', true)
      scope.post('/api/justify-leaf', ran)
      scope.post('/api/other', async ({ quota }) => ({
        refusal: quota.refusal,
        decisions: quota.decisions
      }))
    })
    await app.register(quotaPlugin)
    for (const headers of [
      { host: 'one.example' },
      { 'accept-version': '2.x' },
      { host: 'three.example' }
    ]) {
      t.equal((await app.inject({ method: 'POST', url: '/api/analyze', headers })).statusCode, 401)
    }
    t.equal((await app.inject({ method: 'POST', url: '/api/justify-leaf' })).statusCode, 401)
    t.same((await app.inject({ method: 'POST', url: '/api/other' })).json(), {
      refusal: null,
      decisions: []
    })
  }
)
