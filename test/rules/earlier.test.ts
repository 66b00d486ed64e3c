// docs/rules.md, "Earlier behaviour": one test for each row of the table, compared with the current behaviour.
import { connect } from 'node:net'
import { once } from 'node:events'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import t from 'tap'
import earlierQuotaPlugin, * as entry from '../../lib/earlier.js'
import quotaPlugin, { protectedOperations } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { alice, analyze, captureLog, createService } from '../support/service.js'
import { listen } from '../support/raw-socket.js'

const methods = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'] as const

async function createEarlier (options: entry.EarlierQuotaOptions = {}, server: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app: FastifyInstance = Fastify(server)
  await app.register(earlierQuotaPlugin, options)
  for (const { path } of protectedOperations) app.route({ method: [...methods], url: path, exposeHeadRoute: false, handler: async () => 'ran' })
  return app
}

const from = (app: FastifyInstance, forwarded?: string, remoteAddress = '192.0.2.9') => app.inject({
  method: 'POST', url: '/api/analyze', remoteAddress, ...(forwarded !== undefined && { headers: { 'x-forwarded-for': forwarded } })
})

t.test('the entry point fastify-llm-quota/earlier has a default and a named export of the plugin', async (t) => {
  t.equal(entry.default, entry.earlierQuotaPlugin)
})

t.test('a request to one of the four paths is counted with any method', async (t) => {
  const app = await createEarlier({ perMinute: 1 })
  const governing = await createService()
  for (const { path } of protectedOperations) {
    for (const method of methods) {
      const headers = { 'x-forwarded-for': `${method} ${path}` }
      const statuses = [(await app.inject({ method, url: path, headers })).statusCode, (await app.inject({ method, url: `${path}?again`, headers })).statusCode]
      t.same(statuses, [200, 429], `${method} ${path}`)
    }
  }
  t.equal((await governing.inject({ method: 'PUT', url: '/api/analyze' })).statusCode, 404, 'the current quota protects one method of the path')
})

t.test('no other path is counted', async (t) => {
  const app = Fastify()
  await app.register(earlierQuotaPlugin, { perMinute: 1, prefix: '/context' })
  app.get('/api/analyze', async () => 'ran')
  app.get('/context/api/analyze', async () => 'ran')
  const ask = async (url: string) => (await app.inject(url)).statusCode
  t.same([await ask('/api/analyze'), await ask('/api/analyze')], [200, 200])
  t.same([await ask('/context/api/analyze'), await ask('/context/api/%61nalyze')], [200, 429])
})

t.test('the first entry of X-Forwarded-For, trimmed, identifies the caller if the header is present and not blank', async (t) => {
  const cases: [string, string, boolean][] = [
    ['198.51.100.1', '198.51.100.1', true],
    ['198.51.100.1', ' 198.51.100.1 ', true],
    ['198.51.100.1, 10.0.0.1', '198.51.100.1,10.0.0.2', true],
    ['198.51.100.1', '198.51.100.2', false],
    ['10.0.0.1, 198.51.100.1', '10.0.0.2, 198.51.100.1', false],
    ['unknown words', 'unknown words', true],
    [', 198.51.100.1', ',198.51.100.2', true]
  ]
  for (const [one, other, same] of cases) {
    const app = await createEarlier({ perMinute: 1 })
    t.equal((await from(app, one)).statusCode, 200)
    t.equal((await from(app, other)).statusCode, same ? 429 : 200, `${one} and ${other}`)
  }
})

t.test('the address of the peer identifies the caller if X-Forwarded-For is missing or blank', async (t) => {
  for (const forwarded of [undefined, '', '   ']) {
    const app = await createEarlier({ perMinute: 1 }, { trustProxy: true })
    t.equal((await from(app, forwarded, '192.0.2.1')).statusCode, 200)
    t.equal((await from(app, forwarded, '192.0.2.2')).statusCode, 200, 'a different address is a different caller')
    t.equal((await from(app, forwarded, '192.0.2.1')).statusCode, 429)
  }
})

t.test('a client can choose its own identity with X-Forwarded-For', async (t) => {
  const app = await createEarlier({ perMinute: 1 })
  t.teardown(() => app.close())
  const port = await listen(app)
  const statuses = []
  for (const forwarded of ['', 'X-Forwarded-For: a\r\n', 'X-Forwarded-For: b\r\nX-Forwarded-For: a\r\n', '', 'X-Forwarded-For: a\r\n']) {
    const socket = connect(port, '127.0.0.1')
    socket.write(`POST /api/analyze HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\n${forwarded}\r\n`)
    let answer = ''
    socket.on('data', (chunk) => { answer += String(chunk) })
    await once(socket, 'close')
    statuses.push(Number(answer.split(' ')[1]))
  }
  t.same(statuses, [200, 200, 200, 429, 429])
})

t.test('authentication is not checked, and no answer is 401', async (t) => {
  const app = await createEarlier()
  t.equal((await from(app)).statusCode, 200)
  t.equal((await analyze(await createService(), null)).statusCode, 401, 'the current quota requires an authentication')
})

t.test('a limit of 0 or a negative limit disables the quota', async (t) => {
  for (const perMinute of [0, -1, -100]) {
    const app = await createEarlier({ perMinute })
    for (let request = 0; request < 5; request++) t.equal((await from(app)).statusCode, 200, String(perMinute))
  }
  const governing = await createService({ perMinute: -1 })
  t.same([(await analyze(governing, alice)).statusCode, (await analyze(governing, alice)).statusCode], [200, 429])
})

t.test('a new window begins after more than 60 s; the request that begins it counts as 1', async (t) => {
  const clock = new VirtualClock()
  const app = await createEarlier({ perMinute: 2, clock: clock.now })
  t.same([(await from(app)).statusCode, (await from(app)).statusCode, (await from(app)).statusCode], [200, 200, 429])
  clock.advance(60_000)
  t.equal((await from(app)).statusCode, 429, 'the current quota would begin a new window now')
  clock.advance(1)
  t.same([(await from(app)).statusCode, (await from(app)).statusCode, (await from(app)).statusCode], [200, 200, 429])
})

t.test('a 429 has the same body as in the current quota, but neither Retry-After nor Cache-Control', async (t) => {
  const app = await createEarlier({ perMinute: 1 })
  await from(app)
  const response = await from(app)
  t.equal(response.statusCode, 429)
  t.equal(response.body, '{"error":"Rate limit exceeded. Maximum 1 LLM requests per minute. Please wait.","status":429}')
  t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
  t.notOk('retry-after' in response.headers)
  t.notOk('cache-control' in response.headers)
})

t.test('all callers are tracked: there is no cap, no sweep and no overflow counter', async (t) => {
  const clock = new VirtualClock()
  const app = await createEarlier({ perMinute: 1, clock: clock.now })
  const answers = new Set<number>()
  for (let address = 0; address < 10_050; address++) answers.add((await from(app, `address ${address}`)).statusCode)
  t.same([...answers], [200])
  t.equal((await from(app, 'address 10049')).statusCode, 429, 'the 10,050th caller has a counter of its own')
  clock.advance(60_000)
  t.equal((await from(app, 'address 0')).statusCode, 429, 'the first caller still has its counter')
})

t.test('the preference key and the default of 10 are the same as in the current quota', async (t) => {
  const app = await createEarlier()
  const statuses = []
  for (let request = 0; request < 11; request++) statuses.push((await from(app)).statusCode)
  t.same(statuses, [...Array(10).fill(200), 429])
  for (const preferences of [new Map([['rate-limit.per-minute', '1']]), { get: async (key: string) => key === 'rate-limit.per-minute' ? 1 : 5 }]) {
    const preferring = await createEarlier({ preferences })
    t.same([(await from(preferring)).statusCode, (await from(preferring)).statusCode], [200, 429])
  }
  const host = Fastify()
  host.decorate('preferences', new Map([['rate-limit.per-minute', 1]]))
  await host.register(earlierQuotaPlugin)
  host.post('/api/analyze', async () => 'ran')
  t.same([(await from(host)).statusCode, (await from(host)).statusCode], [200, 429])
})

t.test('the start-up checks are those of the current quota', async (t) => {
  for (const [options, message] of [[{ store: {} }, /option store does not exist/], [{ clock: 5 }, /option clock must be a function; it got 5/], [{ perMinute: 'x' }, /option perMinute/]] as const) {
    await t.rejects(async () => { await Fastify().register(earlierQuotaPlugin, Object(options)) }, { code: 'FST_ERR_LLM_QUOTA_OPTION', message })
  }
  const app = Fastify()
  await app.register(earlierQuotaPlugin)
  await t.rejects(async () => { await app.register(earlierQuotaPlugin) }, { code: 'FST_ERR_LLM_QUOTA_SECOND_REGISTRATION' })
})

t.test('the earlier plugin decorates nothing, and works together with the current one in shadow mode', async (t) => {
  const log = captureLog()
  const app = Fastify({ logger: log.logger })
  const before = Object.keys(app).length
  await app.register(earlierQuotaPlugin, { perMinute: 1 })
  t.equal(Object.keys(app).length, before)
  await app.register(quotaPlugin, { perMinute: 5, mode: 'shadow' })
  app.post('/api/analyze', async (_request, reply) => reply.callNotFound())
  const decisions: [string, string][] = []
  const earlier = (message: unknown) => { decisions.push(['earlier', Object(message).decision.outcome]) }
  const governing = (message: unknown) => { decisions.push(['governing', Object(message).decision.outcome]) }
  subscribe('fastify-llm-quota:earlier-decision', earlier)
  subscribe('fastify-llm-quota:decision', governing)
  t.same([(await from(app)).statusCode, (await from(app)).statusCode], [404, 429])
  unsubscribe('fastify-llm-quota:earlier-decision', earlier)
  unsubscribe('fastify-llm-quota:decision', governing)
  t.same(decisions, [['earlier', 'admitted'], ['governing', 'unauthenticated'], ['earlier', 'rejected']])
})

t.test('a decision of the earlier plugin contains the outcome, the operation with the method of the request, and the limit', async (t) => {
  const decisions: unknown[] = []
  const record = (message: unknown) => { decisions.push(Object(message).decision) }
  subscribe('fastify-llm-quota:earlier-decision', record)
  for (const perMinute of [1, 0]) {
    const app = await createEarlier({ perMinute })
    await from(app)
    await from(app)
  }
  unsubscribe('fastify-llm-quota:earlier-decision', record)
  const operation = { method: 'POST', path: '/api/analyze' }
  t.same(decisions, [
    { outcome: 'admitted', operation, limit: 1 },
    { outcome: 'rejected', operation, limit: 1 },
    { outcome: 'disabled', operation, limit: 0 },
    { outcome: 'disabled', operation, limit: 0 }
  ])
})

t.test('the earlier plugin declares its name and the supported Fastify versions', async (t) => {
  t.same(Reflect.get(earlierQuotaPlugin, Symbol.for('plugin-meta')), { fastify: '5.x || ^6.0.0-alpha.4', name: 'fastify-llm-quota-earlier' })
})
