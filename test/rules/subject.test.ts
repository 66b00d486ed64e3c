// docs/rules.md, "Subject".
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import { alice, analyze, bearer, createService } from '../support/service.js'

t.test('a request is subject to the quota if its method and its application path are those of an operation', async (t) => {
  const app = await createService()
  t.equal((await analyze(app, null)).statusCode, 401)
})

t.test('the application path is the path without the deployment context prefix', async (t) => {
  const app = await createService({ prefix: '/context' })
  app.post('/context/api/analyze', async () => 'ran')
  t.equal((await app.inject({ method: 'POST', url: '/context/api/analyze' })).statusCode, 401)
  t.equal((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode, 200, 'a path without the prefix is not subject')
})

t.test('requests that do not match pass unchanged and are never counted', async (t) => {
  const app = await createService({ perMinute: 1 })
  app.post('/api/other', async (request) => ({ body: request.body, quota: request.quota }))
  for (let request = 0; request < 5; request++) {
    const response = await app.inject({ method: 'POST', url: '/api/other', payload: { text: 'as it was' }, headers: bearer(app, alice) })
    t.same(response.json(), { body: { text: 'as it was' }, quota: null })
  }
  t.equal((await analyze(app, alice)).statusCode, 200)
  t.same(app.quotaStore.inspect?.(), { trackedCallers: 1, sweeps: 0 })
})

t.test('an admitted request reaches the operation, and the quota adds no headers to its response', async (t) => {
  const app = await createService({ perMinute: 0 })
  const unlimited = await analyze(app, alice)
  const counting = await createService()
  const admitted = await analyze(counting, alice)
  t.same(admitted.json(), { ran: '/api/analyze' })
  t.same(Object.keys(admitted.headers), Object.keys(unlimited.headers))
  t.notOk(Object.keys(admitted.headers).some((name) => /limit|retry/i.test(name)))
})

t.test('the first request to a route does not decide on later ones', async (t) => {
  for (const pattern of ['/*', '/api/:operation', '/api/:operation(analyze|other)', '/:a/:b']) {
    const app = Fastify()
    await app.register(quotaPlugin)
    app.post(pattern, async () => 'ran')
    const statusOf = async (url: string) => (await app.inject({ method: 'POST', url })).statusCode
    const answers = []
    for (const url of ['/api/other', '/api/analyze', '/api/other', '/api/%61nalyze']) answers.push(await statusOf(url))
    t.same(answers, [200, 401, 200, 401], pattern)
  }
})
