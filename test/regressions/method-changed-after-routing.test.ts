// If a hook of the host changed the method after routing, the handler of a protected operation ran without being counted.
import Fastify, { type HTTPMethods } from 'fastify'
import t, { type Test } from 'tap'
import quotaPlugin from '../../lib/index.js'
import { listen, sendRaw } from '../support/raw-socket.js'

/** Starts a host that takes the method from the query, as method-override hooks do. */
async function start (t: Test, method: HTTPMethods | HTTPMethods[], pattern: string, config = {}) {
  const app = Fastify()
  const decided: unknown[] = []
  app.addHook('onRequest', async ({ raw, query }) => { raw.method = Object(query).method ?? raw.method })
  app.addHook('onSend', async ({ quota }) => { decided.push(quota?.operation.method) })
  await app.register(quotaPlugin)
  app.route({ method, url: pattern, exposeHeadRoute: false, config, handler: async () => 'ran' })
  t.teardown(() => app.close())
  const port = await listen(app)
  const ask = async (method: string, target: string): Promise<unknown> => (await sendRaw(port, [{ method, target }]))[0]?.status
  return { ask, decided }
}

for (const pattern of ['/api/analyze', '/api/:operation', '/*']) {
  t.test(`a request on the route ${pattern} is counted even if a hook changes its method`, async (t) => {
    const { ask } = await start(t, 'POST', pattern)
    for (const method of ['PUT', 'GET', 'POS', 'POST', '']) t.equal(await ask('POST', `/api/analyze?method=${method}`), 401, method)
    t.equal(await ask('POST', '/api/analyze'), 401)
    t.not(await ask('POST', '/api/other?method=PUT'), 401)
  })
}

t.test('a request whose method a hook changes to that of the operation is counted', async (t) => {
  const { ask } = await start(t, ['GET', 'POST'], '/api/analyze')
  t.equal(await ask('GET', '/api/analyze?method=POST'), 401)
})

t.test('the new method decides on a route with several methods if it is one of them', async (t) => {
  const { ask } = await start(t, ['POST', 'PUT'], '/api/analyze')
  t.equal(await ask('PUT', '/api/analyze'), 200, 'PUT is not a method of the operation')
  t.equal(await ask('POST', '/api/analyze?method=PATCH'), 401, 'a method that the route does not have')
  const { ask: askOther } = await start(t, ['PATCH', 'PUT'], '/api/analyze')
  t.equal(await askOther('PUT', '/api/analyze?method=DELETE'), 200, 'no method of the route is that of the operation')
})

t.test('only the current method of the request counts if no route matched', async (t) => {
  const { ask } = await start(t, 'POST', '/other')
  t.equal(await ask('POST', '/api/analyze?method=PUT'), 404)
  t.equal(await ask('PUT', '/api/analyze?method=POST'), 401)
})

t.test('the operation of a marked route has a method of that route', async (t) => {
  const one = await start(t, 'POST', '/v1/:model', { quota: true })
  t.equal(await one.ask('POST', '/v1/a?method=PUT'), 401)
  t.equal(await one.ask('POST', '/v1/a'), 401)
  t.same(one.decided, ['POST', 'POST'])
  const several = await start(t, ['POST', 'PUT'], '/v1/:model', { quota: true })
  for (const method of ['POST', 'PUT', 'PATCH']) t.equal(await several.ask('POST', `/v1/a?method=${method}`), 401)
  t.same(several.decided, ['POST', 'PUT', 'POST'])
})

t.test('the case of a method that a hook of the host sets does not matter', async (t) => {
  const { ask } = await start(t, ['GET', 'PUT'], '/api/analyze')
  for (const method of ['post', 'Post', 'POST']) t.equal(await ask('GET', `/api/analyze?method=${method}`), 401, method)
  t.equal(await ask('GET', '/api/analyze?method=put'), 200)
})
