// docs/rules.md, "Refusal": the answers 401, 429 and 503.
import { gzipSync } from 'node:zlib'
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, MemoryQuotaStore, type Acquisition, type QuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { listen, sendRaw } from '../support/raw-socket.js'
import { alice, analyze, captureLog, createService } from '../support/service.js'

const unauthenticated = '{"error":"Authentication is required for this LLM operation.","status":401}'
const rejected = '{"error":"Rate limit exceeded. Maximum 1 LLM requests per minute. Please wait.","status":429}'
const unavailable = '{"error":"The request quota is unavailable. Please try again.","status":503}'

const brokenStore: QuotaStore = { acquire () { throw new Error('the counters are gone') } }

t.test('a request without a caller is answered with 401', async (t) => {
  const app = await createService()
  const response = await analyze(app, null)
  t.equal(response.statusCode, 401)
  t.equal(response.body, unauthenticated)
  t.match(response.headers, { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store', 'content-length': String(unauthenticated.length) })
  t.notOk('retry-after' in response.headers)
})

t.test('a request at the limit is answered with 429', async (t) => {
  const app = await createService({ perMinute: 1, store: new MemoryQuotaStore({ clock: new VirtualClock().now }) })
  await analyze(app, alice)
  const response = await analyze(app, alice)
  t.equal(response.statusCode, 429)
  t.equal(response.body, rejected)
  t.match(response.headers, { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store', 'retry-after': '60' })
})

t.test('the message of a 429 contains the effective limit', async (t) => {
  for (const [configured, named] of [[-3, 1], [2, 2]] as const) {
    const app = await createService({ perMinute: configured })
    for (let request = 0; request < named; request++) await analyze(app, alice)
    t.equal((await analyze(app, alice)).json().error, `Rate limit exceeded. Maximum ${named} LLM requests per minute. Please wait.`)
  }
})

t.test('Retry-After is the time until the window ends, in seconds, rounded up and at least 1', async (t) => {
  const clock = new VirtualClock()
  const app = await createService({ perMinute: 1, store: new MemoryQuotaStore({ clock: clock.now }) })
  await analyze(app, alice)
  let passed = 0
  for (const [at, seconds] of [[0, '60'], [0.5, '60'], [1, '60'], [999, '60'], [1_000, '59'], [1_000.25, '59'], [30_000, '30'], [58_999, '2'], [59_000, '1'], [59_999, '1'], [59_999.75, '1']] as const) {
    clock.advance(at - passed)
    passed = at
    t.equal((await analyze(app, alice)).headers['retry-after'], seconds, `${at} ms into the window`)
  }
  clock.advance(60_000 - passed)
  t.equal((await analyze(app, alice)).statusCode, 200)
})

t.test('a request is answered with 503 if the store fails, and the operation does not run', async (t) => {
  const failing: [string, QuotaStore['acquire']][] = [
    ['throws', () => { throw new Error('gone') }],
    ['rejects', async () => { throw new Error('gone') }],
    ...[undefined, null, 5, {}, { admitted: 'yes', windowRemaining: 1 }, { admitted: true }, { admitted: true, count: 1, windowRemaining: NaN, overflow: false },
      { admitted: true, count: 1, windowRemaining: 0, overflow: false }]
      .flatMap((nonsense): [string, QuotaStore['acquire']][] => [
        [`answers ${JSON.stringify(nonsense)}`, () => nonsense as Acquisition],
        [`promises ${JSON.stringify(nonsense)}`, async () => nonsense as Acquisition]
      ])
  ]
  for (const [what, acquire] of failing) {
    const log = captureLog()
    let ran = false
    const app = await createService({ store: { ...brokenStore, acquire } }, { logger: log.logger })
    app.addHook('preHandler', async () => { ran = true })
    const response = await analyze(app, alice)
    t.equal(response.statusCode, 503, what)
    t.equal(response.body, unavailable)
    t.match(response.headers, { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store', 'retry-after': '1' })
    t.match(log.errors(), [/store failed/])
    t.match(log.lines.find(({ level }) => level === 50), { err: { message: /throws|rejects/.test(what) ? 'gone' : /.+/ } })
    t.equal(ran, false)
  }
})

t.test('a store can return a promise', async (t) => {
  const memory = new MemoryQuotaStore()
  const app = await createService({ perMinute: 1, store: { ...brokenStore, acquire: async (callerKey, limit) => memory.acquire(callerKey, limit) } })
  t.equal((await analyze(app, alice)).statusCode, 200)
  t.equal((await analyze(app, alice)).statusCode, 429)
  t.equal((await analyze(app, null)).statusCode, 401)
})

t.test('the onSend hooks of the host run, and can encode the refusal', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin)
  app.addHook('onSend', async (_request, reply, payload) => {
    t.equal(payload, unauthenticated)
    reply.header('content-encoding', 'gzip')
    return gzipSync(String(payload))
  })
  const response = await app.inject({ method: 'POST', url: '/api/analyze' })
  t.same(response.rawPayload, gzipSync(unauthenticated))
})

t.test('a request that the host has answered while the quota waited for the store is not answered again', async (t) => {
  const log = captureLog()
  const app = Fastify({ logger: log.logger })
  let refuse = (_error: Error): void => {}
  const slow: QuotaStore = { ...brokenStore, acquire: () => new Promise((_resolve, reject) => { refuse = reject }) }
  app.addHook('preValidation', async (request, reply) => {
    Object.assign(request, { user: localAuthentication('alice') })
    setImmediate(() => { reply.code(504).send('too slow') })
  })
  await app.register(quotaPlugin, { store: slow })
  app.post('/api/analyze', async () => 'ran')
  const response = await app.inject({ method: 'POST', url: '/api/analyze' })
  t.equal(response.statusCode, 504)
  refuse(new Error('late'))
  await new Promise(setImmediate)
  t.same(log.warnings(), [])
})

t.test('an answer of the host that is in an asynchronous onSend hook is sent once, with the status of the refusal, and the operation does not run', async (t) => {
  const app = Fastify()
  let refuse = (): void => {}
  const slow: QuotaStore = {
    ...brokenStore,
    acquire: () => new Promise((resolve) => { refuse = () => { resolve({ admitted: false, count: 1, windowRemaining: 5_000, overflow: false }) } })
  }
  app.addHook('preValidation', async ({ method }, reply) => { if (method === 'POST') setImmediate(() => { reply.code(504).send('too slow') }) })
  app.addHook('onSend', async (_request, _reply, payload) => {
    // Fastify 5.0.0 ends the process if two answers to a request leave this hook, so the refusal does not leave it.
    if (payload !== 'too slow' && payload !== 'other') await new Promise(() => {})
    refuse()
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
    return payload
  })
  await app.register(quotaPlugin, { store: slow, authentication: () => localAuthentication('alice') })
  let runs = 0
  app.post('/api/analyze', async () => { runs += 1 })
  app.get('/other', async () => 'other')
  t.teardown(() => app.close())
  const answers = await sendRaw(await listen(app), [{ method: 'POST', target: '/api/analyze' }, { method: 'GET', target: '/other' }])
  t.same(answers, [{ status: 429, body: 'too slow' }, { status: 200, body: 'other' }])
  t.equal(runs, 0)
})

for (const level of ['debug', 'trace']) {
  t.test(`at the log level ${level}, refusals are logged at debug with a shortened caller key`, async (t) => {
    const log = captureLog(level)
    const app = await createService({ perMinute: 1 }, { logger: log.logger })
    await analyze(app, alice)
    await analyze(app, alice)
    await analyze(app, null)
    const refusals = log.lines.filter((line) => line.msg === 'the quota refuses the request')
    t.match(refusals, [{ level: 20, quota: 'default', outcome: 'rejected', caller: /^[0-9a-f]{8}$/, limit: 1, count: 1, overflow: false, enforced: true }, { level: 20, outcome: 'unauthenticated', reason: 'no-authentication', caller: undefined }])
    t.notMatch(JSON.stringify(log.lines), 'identity.example')
  })
}
