// quotaResponses.
import fastifySwagger from '@fastify/swagger'
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { quotaResponses } from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'

interface Described {
  readonly description: string
  readonly schema: object
}

const text = { type: 'string', description: /\w/ }
const integer = { type: 'integer', description: /\w/ }
const fieldTypes: Record<string, object> = {
  'Cache-Control': { type: 'string', enum: ['no-store'] },
  'Retry-After': { type: 'integer', minimum: 1 },
  'RateLimit-Policy': { type: 'string' },
  RateLimit: { type: 'string' }
}

t.test(
  'quotaResponses describes each refusal with its headers in an OpenAPI document',
  async (t) => {
    const app = Fastify()
    await app.register(fastifySwagger, { openapi: {} })
    const problem = { type: 'object', properties: { title: { type: 'string' } } }
    const rejected = {
      ...quotaResponses[429],
      content: { 'application/problem+json': { schema: problem } }
    }
    app.post(
      '/api/analyze',
      { schema: { response: { 200: { type: 'string' }, ...quotaResponses } } },
      async () => 'ran'
    )
    app.post(
      '/api/own-body',
      { schema: { response: { ...quotaResponses, 429: rejected } } },
      async () => 'ran'
    )
    await app.ready()
    const responsesOf = (path: string) => Object(app.swagger()).paths[path].post.responses
    const responses = responsesOf('/api/analyze')
    t.same(Object.keys(responses), ['200', '401', '429', '503'])
    for (const [status, fields] of [
      [401, []],
      [429, ['Retry-After', 'RateLimit-Policy', 'RateLimit']],
      [503, ['Retry-After']]
    ] as const) {
      const { description, headers, content } = responses[status]
      t.match(description, /\w/)
      t.same(Object.keys(headers), ['Cache-Control', ...fields])
      for (const [name, { description, schema }] of Object.entries<Described>(headers)) {
        matchExactly(
          t,
          { ...schema, description },
          { ...fieldTypes[name], description: /\w/ },
          name
        )
      }
      const { properties, additionalProperties } = content['application/json'].schema
      matchExactly(t, properties, {
        error: text,
        status: { type: 'integer', enum: [status], description: /\w/ },
        statusCode: integer,
        code: text,
        message: text
      })
      t.equal(additionalProperties, true)
    }
    t.same(
      Object.keys(responsesOf('/api/own-body')[429].headers),
      Object.keys(responses[429].headers)
    )
    t.same(responsesOf('/api/own-body')[429].content, {
      'application/problem+json': { schema: problem }
    })
  }
)

t.test(
  'quotaResponses in the schema of a route changes neither a refusal nor an error of the ' +
    'host with the same status',
  async (t) => {
    const app = Fastify()
    const own = { title: 'no such token' }
    app.addHook('onRequest', async ({ headers }, reply) => {
      if (headers['x-fails'] === 'own') return reply.code(401).send(own)
      if (headers['x-fails'] === 'yes') {
        throw Object.assign(new Error('no such token'), { statusCode: 401, code: 'OF_THE_HOST' })
      }
    })
    await app.register(quotaPlugin)
    app.post('/api/analyze', { schema: { response: quotaResponses } }, async () => 'ran')
    const analyze = async (headers = {}) =>
      app.inject({ method: 'POST', url: '/api/analyze', headers })
    t.equal(
      (await analyze()).body,
      '{"error":"Authentication is required for this LLM operation.","status":401}'
    )
    t.same((await analyze({ 'x-fails': 'yes' })).json(), {
      statusCode: 401,
      code: 'OF_THE_HOST',
      error: 'Unauthorized',
      message: 'no such token'
    })
    t.same((await analyze({ 'x-fails': 'own' })).json(), own)
  }
)
