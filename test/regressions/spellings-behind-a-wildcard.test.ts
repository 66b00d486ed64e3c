// Handlers of non-literal routes can decode a path fully. These spellings reached the operation without being counted.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import { listen, sendRaw } from '../support/raw-socket.js'

const spellings = ['/api%2Fanalyze', '/api%2fanalyze', '/api%5Canalyze', '/api%252Fanalyze', '/%61pi%2F%61nalyze', '/./api%2Fanalyze', '/api%2F%2Fanalyze', '/api%2F.%2Fanalyze', '/x%2F..%2Fapi%2Fanalyze', '/api%2Fanalyze%2F', '/api%2Fanalyze%3Fx=1', '/api%2Fanalyze%20']

for (const pattern of ['/*', '/:operation']) {
  t.test(`a spelling with an encoded slash is counted on the route ${pattern}`, async (t) => {
    const app = Fastify()
    await app.register(quotaPlugin)
    app.post(pattern, async () => 'ran')
    t.teardown(() => app.close())
    const port = await listen(app)
    for (const target of spellings.filter((spelling) => pattern === '/*' || !spelling.includes('/', 1))) {
      t.same(await sendRaw(port, [{ method: 'POST', target }]).then(([answer]) => answer?.status), 401, target)
    }
    for (const target of ['/api%2Fanalyzer', '/api%2Fanalyze%2Fx', '/api%2Fanalyze%2F..', '/%', '/api%2F%zzanalyze', '/api%2F%25zzanalyze', '/api%2F%256', '/api%2Fanaly%c3%28ze']) {
      t.not((await sendRaw(port, [{ method: 'POST', target }]))[0]?.status, 401, target)
    }
  })
}

t.test('the path without an optional parameter is counted', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin)
  app.post('/api/analyze/:x?', async () => 'ran')
  const ask = async (url: string) => (await app.inject({ method: 'POST', url })).statusCode
  t.same([await ask('/api/analyze'), await ask('/api/analyze/'), await ask('/api/analyze/x')], [401, 401, 200])
})

t.test('a spelling that no route matches is counted, because a not-found handler could serve it', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin)
  app.setNotFoundHandler(async () => 'dispatched')
  t.equal((await app.inject({ method: 'POST', url: '/api%2Fanalyze' })).statusCode, 401)
  t.equal((await app.inject({ method: 'POST', url: '/api%2Fother' })).body, 'dispatched')
})
