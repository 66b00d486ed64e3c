// docs/rules.md, "Refusal": the option refusalBody.
import Fastify, { type FastifyRequest } from 'fastify'
import t from 'tap'
import quotaPlugin, { MemoryQuotaStore, type QuotaDecision, type RefusalBody } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { alice, analyze, captureLog, createService } from '../support/service.js'

const own = '{"error":"Authentication is required for this LLM operation.","status":401}'

// The recipe for RFC 9457, with the problem type that draft-ietf-httpapi-ratelimit-headers-10 defines.
function problemDetails ({ outcome, quota, limit }: QuotaDecision, request: FastifyRequest): RefusalBody {
  const problem = outcome === 'rejected'
    ? { type: 'https://iana.org/assignments/http-problem-types#quota-exceeded', title: 'Too Many Requests', status: 429, detail: `At most ${limit} requests a minute.`, 'violated-policies': [quota] }
    : { type: 'about:blank', title: outcome === 'unauthenticated' ? 'Unauthorized' : 'Service Unavailable', status: outcome === 'unauthenticated' ? 401 : 503 }
  return { contentType: 'application/problem+json', body: JSON.stringify({ ...problem, instance: request.url }) }
}

t.test('refusalBody replaces the body and its content type; the status and the other headers do not change', async (t) => {
  const memory = new MemoryQuotaStore({ clock: new VirtualClock().now })
  let fails = false
  const acquire = (key: string, limit: number) => {
    if (fails) throw new Error('gone')
    return memory.acquire(key, limit)
  }
  const store = { acquire }
  const app = await createService({ perMinute: 1, refusalBody: problemDetails, store })
  t.equal((await analyze(app, alice)).body, '{"ran":"/api/analyze"}')
  const rejected = await analyze(app, alice)
  t.equal(rejected.statusCode, 429)
  t.match(rejected.headers, { 'content-type': 'application/problem+json', 'cache-control': 'no-store', 'retry-after': '60', 'content-length': String(rejected.body.length) })
  t.same(rejected.json(), { type: 'https://iana.org/assignments/http-problem-types#quota-exceeded', title: 'Too Many Requests', status: 429, detail: 'At most 1 requests a minute.', 'violated-policies': ['default'], instance: '/api/analyze' })
  const unauthenticated = await analyze(app, null)
  t.equal(unauthenticated.statusCode, 401)
  t.match(unauthenticated.json(), { type: 'about:blank', status: 401 })
  fails = true
  const unavailable = await analyze(app, alice)
  t.equal(unavailable.statusCode, 503)
  t.match(unavailable.headers, { 'content-type': 'application/problem+json', 'cache-control': 'no-store', 'retry-after': '1' })
})

t.test('the body is sent unchanged, whatever serializer the host has', async (t) => {
  const app = Fastify()
  app.setSerializerCompiler(() => () => '"compiled"')
  app.addHook('onRequest', async (_request, reply) => { reply.serializer(() => '"of the request"') })
  await app.register(quotaPlugin, { refusalBody: () => ({ contentType: 'text/plain; charset=utf-8', body: 'no' }) })
  const response = await app.inject({ method: 'POST', url: '/api/analyze' })
  t.equal(response.body, 'no')
  t.equal(response.headers['content-type'], 'text/plain; charset=utf-8')
})

t.test('the refusal has the default body if refusalBody fails, and the error is logged', async (t) => {
  const failing: [string, () => unknown][] = [
    ['throws', () => { throw new Error('of the host') }],
    ['returns undefined', () => undefined],
    ['returns a string', () => 'no'],
    ['returns a promise', async () => ({ contentType: 'text/plain', body: 'no' })],
    ['returns no content type', () => ({ body: 'no' })],
    ['returns a content type that is not a media type', () => ({ contentType: 'plain', body: 'no' })],
    ['returns a content type that is not a valid header', () => ({ contentType: 'text/plain; a="\n"', body: 'no' })],
    ['returns no body', () => ({ contentType: 'text/plain' })],
    ['returns an object as the body', () => ({ contentType: 'text/plain', body: {} })],
    ['returns an object that cannot be read', () => ({ get body () { throw new Error('of the host') } })]
  ]
  for (const [what, refusalBody] of failing) {
    const log = captureLog()
    const app = await createService({ refusalBody: refusalBody as () => RefusalBody }, { logger: log.logger })
    const response = await analyze(app, null)
    t.equal(response.statusCode, 401, what)
    t.equal(response.body, own, what)
    t.equal(response.headers['content-type'], 'application/json; charset=utf-8', what)
    t.match(log.lines.filter(({ level }) => level === 50), [{ msg: /refusalBody failed/, err: { message: /\w/ } }], what)
  }
})

t.test('the content type must be a media type, with or without parameters', async (t) => {
  let contentType = ''
  const app = await createService({ refusalBody: () => ({ contentType, body: 'of the host' }) })
  for (const [given, isMediaType] of [
    ['text/plain', true], ['a/b', true], ['application/vnd.api+json', true], ["!#$%&'*+.^`|~-_9/!#$%&'*+.^`|~-_9", true], ['text/plain;charset=utf-8', true], ['text/plain; charset=utf-8', true],
    ['text/plain ;charset=utf-8', true], ['text/plain  ; charset=utf-8', true], ['text/plain ', true],
    ['', false], ['plain', false], ['/plain', false], ['text/', false], ['text/;charset=utf-8', false], [' text/plain', false], ['(text/plain', false], ['text/(plain', false], ['text/plain)', false],
    ['text /plain', false], ['text/plain, text/html', false], ['text/plain charset=utf-8', false], ['text/plain x; charset=utf-8', false], ['text//plain', false]
  ] as const) {
    contentType = given
    const { body, headers } = await analyze(app, null)
    t.equal(body, isMediaType ? 'of the host' : own, given)
    t.ok(String(headers['content-type']).startsWith(isMediaType ? given.trim() : 'application/json'), given)
  }
})

t.test('a refusal logs no error if refusalBody is not set', async (t) => {
  const log = captureLog()
  const app = await createService({}, { logger: log.logger })
  t.equal((await analyze(app, null)).body, own)
  t.same(log.errors(), [])
})

t.test('refusalBody is not called in shadow mode or for admitted requests', async (t) => {
  let asked = 0
  const refusalBody = () => { asked += 1; return { contentType: 'text/plain', body: 'no' } }
  await analyze(await createService({ refusalBody, mode: 'shadow' }), null)
  await analyze(await createService({ refusalBody }), alice)
  t.equal(asked, 0)
})
