// docs/rules.md, "Refusal", in arbitrary hosts, with hooks, serializers, schemas and headers of their own.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, MemoryQuotaStore, type QuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { assertProperty } from '../support/property.js'

const failing: QuotaStore = { acquire () { throw new Error('gone') } }

const refusals = {
  401: { body: '{"error":"Authentication is required for this LLM operation.","status":401}', retryAfter: undefined },
  429: { body: '{"error":"Rate limit exceeded. Maximum 1 LLM requests per minute. Please wait.","status":429}', retryAfter: '60' },
  503: { body: '{"error":"The request quota is unavailable. Please try again.","status":503}', retryAfter: '1' }
}

/** Something that a host does and that must not affect a refusal. */
const habits: Record<string, (app: FastifyInstance) => void> = {
  'an error handler': (app) => { app.setErrorHandler(async (_error, _request, reply) => reply.code(418).send('another answer')) },
  'a reply serializer': (app) => { app.setReplySerializer((payload) => `wrapped ${JSON.stringify(payload)}`) },
  'a serializer compiler': (app) => { app.setSerializerCompiler(() => () => 'compiled') },
  'a not-found handler': (app) => { app.setNotFoundHandler(async () => 'not found') },
  'a status set early': (app) => { app.addHook('onRequest', async (_request, reply) => { reply.code(201) }) },
  'a type set early': (app) => { app.addHook('onRequest', async (_request, reply) => { reply.type('text/plain') }) },
  'headers set early': (app) => { app.addHook('preValidation', async (_request, reply) => { reply.headers({ 'cache-control': 'public', 'x-host': 'kept' }) }) },
  'a serializer set early': (app) => { app.addHook('onRequest', async (_request, reply) => { reply.serializer(() => 'serialized') }) },
  'a hook that does nothing': (app) => { app.addHook('onSend', async (_request, _reply, payload) => payload) },
  'a hook that awaits': (app) => { app.addHook('onSend', async (_request, _reply, payload) => { await null; return payload }) },
  'a preSerialization hook': (app) => { app.addHook('preSerialization', async () => ({ replaced: true })) },
  'a callback hook': (app) => { app.addHook('onResponse', (_request, _reply, done) => { done() }) },
  'an onError hook': (app) => { app.addHook('onError', async (_request, reply) => { reply.code(418) }) },
  'an own preHandler': (app) => { app.addHook('preHandler', async (_request, reply) => reply.code(202).send('handled already')) }
}

const schemas = [
  undefined,
  { 200: { type: 'object', properties: { answer: { type: 'string' } } } },
  { '4xx': { type: 'object', properties: {}, additionalProperties: false }, '5xx': { type: 'string' } },
  { 401: { type: 'array' }, 429: { type: 'number' }, 503: { type: 'null' } },
  { default: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] } }
]

t.test('the bytes of a refusal do not depend on the host', async () => {
  const host = fc.record({
    before: fc.subarray(Object.keys(habits)),
    after: fc.subarray(Object.keys(habits)),
    schema: fc.constantFrom(...schemas),
    status: fc.constantFrom(401, 429, 503),
    asynchronous: fc.boolean()
  })
  await assertProperty(fc.asyncProperty(host, async ({ before, after, schema, status, asynchronous }) => {
    const app = Fastify()
    const memory = new MemoryQuotaStore({ clock: new VirtualClock().now })
    const store = status === 503 ? failing : memory
    // A host can have one of each of these.
    const handlers = ['an error handler', 'a not-found handler', 'a reply serializer', 'a serializer compiler']
    for (const habit of before) if (habit !== 'an own preHandler') habits[habit]?.(app)
    await app.register(quotaPlugin, {
      perMinute: 1,
      store: asynchronous ? { acquire: async (...asked) => await store.acquire(...asked) } : store,
      authentication: () => status === 401 ? null : localAuthentication('alice')
    })
    for (const habit of after) if (!(before.includes(habit) && handlers.includes(habit))) habits[habit]?.(app)
    let ran = 0
    app.post('/api/analyze', { ...(schema && { schema: { response: schema } }) }, async () => { ran++; return { answer: 'ran', message: 'ran' } })
    if (status === 429) await app.inject({ method: 'POST', url: '/api/analyze' })
    const ranBefore = ran
    const { statusCode, body, headers } = await app.inject({ method: 'POST', url: '/api/analyze' })
    await app.close()
    const { body: ownBody, retryAfter } = refusals[status]
    deepStrictEqual(
      [statusCode, body, headers['content-type'], headers['cache-control'], headers['retry-after'], ran - ranBefore],
      [status, ownBody, 'application/json; charset=utf-8', 'no-store', retryAfter, 0])
  }), { numRuns: 200 })
})
