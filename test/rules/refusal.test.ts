// docs/rules.md, "Refusal": the responses 401, 429 and 503, and the option refusalBody.
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { InsuredQuotaStore, MemoryQuotaStore, type QuotaDefinition, type QuotaStore, type RefusalBody, type RefusalBodyWriter } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { createHost } from '../support/quota-host.js'
import { alice, analyze, asAlice, captureLog, createService, statuses } from '../support/service.js'

const unauthenticated = '{"error":"Authentication is required for this LLM operation.","status":401}'

t.test('Retry-After is the time until the window ends, in seconds, rounded up and at least 1', async (t) => {
  const clock = new VirtualClock()
  const app = await createService({ perMinute: 1, store: new MemoryQuotaStore({ clock: clock.now }) })
  await analyze(app, alice)
  for (const [at, seconds] of [[0, '60'], [0.5, '60'], [1, '60'], [999, '60'], [1_000, '59'], [1_000.25, '59'], [30_000, '30'], [58_999, '2'], [59_000, '1'], [59_999, '1'], [59_999.75, '1']] as const) {
    clock.advance(at - clock.now())
    t.equal((await analyze(app, alice)).headers['retry-after'], seconds, `${at} ms into the window`)
  }
  clock.advance(60_000 - clock.now())
  t.same(await statuses(app, alice, 1), [200])
})

t.test('the body of a 429 states the limit of its own quota, whatever the rejection before it stated', async (t) => {
  const rows: [QuotaDefinition, string][] = [
    [{ perMinute: 1 }, '1 LLM requests per minute'], [{ perMinute: 2 }, '2 LLM requests per minute'], [{ perHour: 2 }, '2 LLM requests per hour'],
    [{ tokensPerHour: 2, unreportedTokens: 2 }, '2 LLM tokens per hour'], [{ perDay: 2 }, '2 LLM requests per day'], [{ perMinute: 2 }, '2 LLM requests per minute']
  ]
  for (const [named, maximum] of rows) {
    const { statuses, ask } = await createHost('named', { quotas: { named } })
    await statuses(2)
    t.equal((await ask()).body, `{"error":"Rate limit exceeded. Maximum ${maximum}. Please wait.","status":429}`)
  }
})

const valid = { admitted: true, count: 1, windowRemaining: 5000, overflow: false }
const invalid: [string, unknown][] = [
  ['undefined', undefined], ['null', null], ['a number', 5], ['an empty object', {}], ['only admitted', { admitted: true }], ['a string as admitted', { ...valid, admitted: 'yes' }],
  ['a negative count', { ...valid, count: -5 }], ['a count with a fraction', { ...valid, count: 1.5 }], ['a bigint as the count', { ...valid, count: 1n }],
  ['a windowRemaining of 0', { ...valid, windowRemaining: 0 }], ['NaN as windowRemaining', { ...valid, windowRemaining: NaN }], ['a string as windowRemaining', { ...valid, windowRemaining: '5000' }],
  ['an array as windowRemaining', { ...valid, windowRemaining: [5000] }], ['a bigint as windowRemaining', { ...valid, windowRemaining: 5000n }], ['a windowRemaining without a decimal form', { ...valid, windowRemaining: 1e300 }],
  ['a string as overflow', { ...valid, overflow: 'no' }], ['no overflow', { admitted: true, count: 1, windowRemaining: 5000 }]
]

t.test('a store can return its result, a promise, or any object with a function then', async (t) => {
  for (const given of [valid, Promise.resolve(valid), { then: (resolve: (value: unknown) => void) => { resolve(valid) } }]) {
    const store: QuotaStore = Object.assign(new MemoryQuotaStore(), { acquire: () => given })
    for (const used of [store, new InsuredQuotaStore({ primary: store })]) {
      const app = await createService({ store: used, rateLimitHeaders: 'draft-10', authentication: asAlice })
      t.match(await analyze(app, null), { statusCode: 200, headers: { ratelimit: '"default";r=9;t=5' } })
    }
  }
})

t.test('an invalid result of a store is a failure: the response is a 503, and an insured store uses its fallback', async (t) => {
  for (const [what, result] of invalid) {
    for (const given of [result, Promise.resolve(result)]) {
      const store = (): QuotaStore => Object.assign(new MemoryQuotaStore(), { acquire: () => given, peek: () => given })
      const log = captureLog()
      const app = await createService({ store: store(), authentication: asAlice }, { logger: log.logger })
      app.get('/api/quota', async (request) => app.quotaStanding(request))
      t.same(await statuses(app, null, 1), [503], what)
      t.match(log.lines.filter(({ level }) => level === 50), [{ msg: /store failed/, quota: 'default', err: { message: 'the quota store returned an invalid result from acquire' } }], what)
      // That the caller has no counter is a valid result of peek alone. One that was admitted is not part of it.
      const isPeeked = result === null || what === 'a string as admitted'
      t.equal((await app.inject('/api/quota')).statusCode, isPeeked ? 200 : 503, what)
      const insured = await createService({ store: new InsuredQuotaStore({ primary: store() }), rateLimitHeaders: 'draft-10', authentication: asAlice })
      t.match(await analyze(insured, null), { statusCode: 200, headers: { ratelimit: '"default";r=9;t=60' } })
    }
  }
})

t.test('the onSend hooks of the host run, and can encode the refusal', async (t) => {
  const app = await createService({}, {}, {
    before: (app) => app.addHook('onSend', async (_request, reply, payload) => {
      t.equal(payload, unauthenticated)
      reply.header('content-encoding', 'gzip')
      return gzipSync(String(payload))
    })
  })
  t.same((await analyze(app, null)).rawPayload, gzipSync(unauthenticated))
})

t.test('refusalBody replaces the body and its content type; the status and the other headers do not change', async (t) => {
  const contentType = 'application/problem+json'
  const refusalBody: RefusalBodyWriter = ({ outcome, quota, limit }, { url }) => ({ contentType, body: JSON.stringify({ outcome, quota, limit, url }) })
  const memory = new MemoryQuotaStore({ clock: new VirtualClock().now })
  const store: QuotaStore = { acquire: (...asked) => memory.acquire(...asked) }
  const app = await createService({ perMinute: 1, refusalBody, store })
  const headers = { 'content-type': contentType, 'cache-control': 'no-store' }
  const bodyOf = (outcome: string) => `{"outcome":"${outcome}","quota":"default","limit":1,"url":"/api/analyze"}`
  t.equal((await analyze(app, alice)).body, '{"ran":"/api/analyze"}')
  t.match(await analyze(app, alice), { statusCode: 429, body: bodyOf('rejected'), headers: { ...headers, 'retry-after': '60', 'content-length': String(bodyOf('rejected').length) } })
  t.match(await analyze(app, null), { statusCode: 401, body: bodyOf('unauthenticated'), headers })
  store.acquire = () => { throw new Error('gone') }
  t.match(await analyze(app, alice), { statusCode: 503, body: bodyOf('unavailable'), headers: { ...headers, 'retry-after': '1' } })
})

const plain = { contentType: 'text/plain', body: 'no' }
const failing: [string, () => unknown][] = [
  ['throws', () => { throw new Error('of the host') }],
  ['returns undefined', () => undefined],
  ['returns a string', () => 'no'],
  ['returns a promise', async () => plain],
  ['returns no content type', () => ({ body: 'no' })],
  ['returns a content type that is not a valid header', () => ({ contentType: 'text/plain; a="\n"', body: 'no' })],
  ['returns no body', () => ({ contentType: 'text/plain' })],
  ['returns an object as the body', () => ({ contentType: 'text/plain', body: {} })],
  ['returns an object that cannot be read', () => ({ get body () { throw new Error('of the host') } })],
  ...['', 'plain', '/plain', 'text/', 'text/;charset=utf-8', ' text/plain', '(text/plain', 'text/(plain', 'text/plain)', 'text /plain', 'text/plain, text/html', 'text/plain charset=utf-8', 'text/plain x; charset=utf-8', 'text//plain']
    .map((contentType): [string, () => unknown] => [`returns the content type "${contentType}"`, () => ({ contentType, body: 'no' })])
]

t.test('the refusal has the default body if refusalBody fails, and the error is logged', async (t) => {
  for (const [what, refusalBody] of failing) {
    const log = captureLog()
    const app = await createService({ refusalBody: refusalBody as () => RefusalBody }, { logger: log.logger })
    t.match(await analyze(app, null), { statusCode: 401, body: unauthenticated, headers: { 'content-type': 'application/json; charset=utf-8' } }, what)
    t.match(log.lines.filter(({ level }) => level === 50), [{ msg: /refusalBody failed/, err: { message: /\w/ } }], what)
  }
})

t.test('the content type can be any media type, with or without parameters', async (t) => {
  let contentType = ''
  const app = await createService({ refusalBody: () => ({ contentType, body: 'of the host' }) })
  for (contentType of ['text/plain', 'a/b', 'application/vnd.api+json', "!#$%&'*+.^`|~-_9/!#$%&'*+.^`|~-_9", 'text/plain;charset=utf-8', 'text/plain; charset=utf-8', 'text/plain ;charset=utf-8', 'text/plain  ; charset=utf-8', 'text/plain ']) {
    const { body, headers } = await analyze(app, null)
    t.equal(body, 'of the host', contentType)
    t.ok(String(headers['content-type']).startsWith(contentType.trim()), contentType)
  }
})

t.test('refusalBody is not called in shadow mode or for admitted requests, and without it a refusal logs no error', async (t) => {
  const log = captureLog()
  const refusalBody = () => { throw new Error('not to be called') }
  await analyze(await createService({ refusalBody, mode: 'shadow' }, { logger: log.logger }), null)
  await analyze(await createService({ refusalBody }, { logger: log.logger }), alice)
  await analyze(await createService({}, { logger: log.logger }), null)
  t.same(log.errors(), [])
})
