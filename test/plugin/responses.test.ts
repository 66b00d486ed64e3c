// quotaResponses.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { quotaResponses } from '../../lib/index.js'

t.test('quotaResponses describes the answers 401, 429 and 503', async (t) => {
  t.same(Object.keys(quotaResponses), ['401', '429', '503'])
  const described = (schema: object) => ({ ...schema, description: /\w/ })
  for (const [status, schema] of Object.entries<{ headers?: object }>(quotaResponses)) {
    t.match(schema, described({
      type: 'object',
      headers: {
        'Cache-Control': described({ type: 'string', enum: ['no-store'] }),
        ...(status !== '401' && { 'Retry-After': described({ type: 'integer', minimum: 1 }) })
      },
      properties: {
        error: described({ type: 'string' }),
        status: described({ type: 'integer', enum: [Number(status)] }),
        statusCode: described({ type: 'integer' }),
        code: described({ type: 'string' }),
        message: described({ type: 'string' })
      },
      additionalProperties: true
    }))
    t.equal(Object.hasOwn(Object(schema.headers), 'Retry-After'), status !== '401')
  }
})

t.test('quotaResponses in the schema of a route does not change a refusal', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin)
  app.post('/api/analyze', { schema: { response: quotaResponses } }, async () => 'ran')
  const response = await app.inject({ method: 'POST', url: '/api/analyze' })
  t.equal(response.body, '{"error":"Authentication is required for this LLM operation.","status":401}')
})

t.test('quotaResponses does not change an answer of the host with the same status', async (t) => {
  const app = Fastify()
  app.addHook('onRequest', async () => { throw Object.assign(new Error('no such token'), { statusCode: 401, code: 'OF_THE_HOST' }) })
  await app.register(quotaPlugin)
  app.post('/api/analyze', { schema: { response: quotaResponses } }, async () => 'ran')
  const response = await app.inject({ method: 'POST', url: '/api/analyze' })
  t.same(response.json(), { statusCode: 401, code: 'OF_THE_HOST', error: 'Unauthorized', message: 'no such token' })
})
