// docs/rules.md, "Subject": routes that are marked with a quota.
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, type QuotaOptions } from '../../lib/index.js'
import { captureLog } from '../support/service.js'

const ran = async () => 'ran'

async function create (options: QuotaOptions = {}, declare: (app: FastifyInstance) => void = () => {}, server = {}): Promise<FastifyInstance> {
  const app = Fastify(server)
  await app.register(quotaPlugin, { authentication: ({ headers }) => localAuthentication(headers['x-caller'] ?? 'alice'), perMinute: 1, ...options })
  app.addHook('onSend', async ({ quota }, reply) => { reply.header('x-quota', quota === null ? 'none' : `${quota.quota} ${quota.operation.method} ${quota.operation.path}`) })
  declare(app)
  return app
}

async function ask (app: FastifyInstance, method: 'GET' | 'HEAD' | 'POST', url: string) {
  const { statusCode, headers } = await app.inject({ method, url })
  return [statusCode, headers['x-quota']]
}

t.test('a marked route is subject to the quota with any parameters, and the operation is its method and pattern', async (t) => {
  const app = await create({ perMinute: 2 }, (app) => { app.post('/v1/models/:model/generate', { config: { quota: true } }, ran) })
  const operation = 'default POST /v1/models/:model/generate'
  t.same([await ask(app, 'POST', '/v1/models/a/generate'), await ask(app, 'POST', '/v1/models/b/generate?x'), await ask(app, 'POST', '/v1/models/%63/generate')],
    [[200, operation], [200, operation], [429, operation]])
  t.same(await ask(app, 'POST', '/v1/models/a'), [404, 'none'])
})

t.test('a route can be marked with the name of a quota, which has its own counters', async (t) => {
  const app = await create({ quotas: { chat: { perMinute: 1 } } }, (app) => {
    app.post('/chat', { config: { quota: 'chat' } }, ran)
    app.post('/analysis', { config: { quota: 'default' } }, ran)
  })
  t.same([await ask(app, 'POST', '/chat'), await ask(app, 'POST', '/analysis'), await ask(app, 'POST', '/chat')],
    [[200, 'chat POST /chat'], [200, 'default POST /analysis'], [429, 'chat POST /chat']])
})

t.test('the HEAD route of a marked route is also subject to the quota', async (t) => {
  const app = await create({ perMinute: 2 }, (app) => { app.get('/stream', { config: { quota: true } }, ran) })
  t.same([await ask(app, 'HEAD', '/stream'), await ask(app, 'GET', '/stream'), await ask(app, 'HEAD', '/stream')],
    [[200, 'default HEAD /stream'], [200, 'default GET /stream'], [429, 'default HEAD /stream']])
})

t.test('each method of a marked route is an operation', async (t) => {
  const app = await create({ perMinute: 2 }, (app) => { app.route({ method: ['GET', 'POST'], url: '/both', config: { quota: true }, handler: ran }) })
  t.same([await ask(app, 'GET', '/both'), await ask(app, 'POST', '/both'), await ask(app, 'GET', '/both')],
    [[200, 'default GET /both'], [200, 'default POST /both'], [429, 'default GET /both']])
})

t.test('the path of the operation is the pattern without the prefix', async (t) => {
  for (const [options, pattern, path] of [[{}, '/context/v1/:model', '/context/v1/:model'], [{ prefix: '/context' }, '/context/v1/:model', '/v1/:model'], [{ prefix: '/context' }, '/contexts/v1', '/contexts/v1']] as const) {
    const app = await create(options, (app) => { app.post(pattern, { config: { quota: true } }, ran) })
    t.same(await ask(app, 'POST', pattern.replace(':model', 'a')), [200, `default POST ${path}`])
  }
})

t.test('a mark that the host sets after start-up protects the route from then on', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { authentication: () => localAuthentication('alice'), perMinute: 1 })
  app.addHook('onRequest', async ({ routeOptions: { config }, headers }) => { if (headers['x-mark'] !== undefined) config.quota = true })
  app.post('/chat', ran)
  const statusOf = async (headers = {}): Promise<number> => (await app.inject({ method: 'POST', url: '/chat', headers })).statusCode
  t.same([await statusOf(), await statusOf(), await statusOf({ 'x-mark': '1' }), await statusOf(), await statusOf()], [200, 200, 200, 429, 429])
})

t.test('a mark takes precedence over the path', async (t) => {
  const app = await create({ quotas: { chat: {} } }, (app) => { app.post('/api/:operation', { config: { quota: 'chat' } }, ran) })
  t.same(await ask(app, 'POST', '/api/analyze'), [200, 'chat POST /api/:operation'])
})

t.test('a route that is both marked and an operation of the same quota is counted once', async (t) => {
  const app = await create({}, (app) => { app.post('/api/analyze', { config: { quota: true } }, ran) })
  t.same([await ask(app, 'POST', '/api/analyze'), await ask(app, 'POST', '/api/analyze')], [[200, 'default POST /api/analyze'], [429, 'default POST /api/analyze']])
})

t.test('a route without a mark, or with a config for another purpose, is not subject to the quota', async (t) => {
  const app = await create({}, (app) => {
    app.post('/unmarked', { config: { quota: undefined } as object }, ran)
    app.get('/other', { config: { rateLimit: 5 } as object }, ran)
  })
  t.same([await ask(app, 'POST', '/unmarked'), await ask(app, 'GET', '/other'), await ask(app, 'GET', '/none')], [[200, 'none'], [200, 'none'], [404, 'none']])
})

t.test('start-up fails if a mark is not the name of a quota', async (t) => {
  const failure = (value: string) => ({ code: 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA', message: new RegExp(`the route POST /v1/:model has a config\\.quota that is neither true nor the name of a quota \\(default, chat\\); it got ${value}$`) })
  for (const [mark, value] of [['chatt', "'chatt'"], [false, 'false'], [null, 'null'], [5, '5'], ['', "''"], ['true', "'true'"], [{}, '{}'], ['__proto__', "'__proto__'"]] as const) {
    const app = await create({ quotas: { chat: {} } })
    t.throws(() => app.post('/v1/:model', { config: { quota: mark } as object }, ran), failure(value))
    const plugin = async (scope: FastifyInstance) => { scope.post('/v1/:model', { config: { quota: mark } as object }, ran) }
    await t.rejects(async () => {
      const app = await create({ quotas: { chat: {} } })
      await app.register(plugin)
    }, failure(value), 'within a plugin')
  }
})

t.test('start-up fails if a route is marked with one quota and is an operation of another', async (t) => {
  const app = await create({ quotas: { chat: { operations: [{ method: 'POST', path: '/chat' }] } } })
  const message = /the route POST \/(api\/analyze|chat) is marked with the quota '(chat|default)' but is also an operation of the quota '(default|chat)'/
  t.throws(() => app.post('/api/analyze', { config: { quota: 'chat' } }, ran), { code: 'FST_ERR_LLM_QUOTA_CONFLICT', message })
  t.throws(() => app.post('/chat', { config: { quota: true } }, ran), { code: 'FST_ERR_LLM_QUOTA_CONFLICT', message })
})

t.test('a marked route that is declared before the plugin is subject to the quota; a mark that is not the name of a quota results in 500 and a log line', async (t) => {
  const log = captureLog()
  const app: FastifyInstance = Fastify({ logger: log.logger, disableRequestLogging: true })
  app.setErrorHandler(async (_error, _request, reply) => { await reply.code(500).send() })
  const handled: string[] = []
  app.post('/marked', { config: { quota: true } }, ran)
  app.post('/mistaken', { config: { quota: 'chatt' } }, async () => { handled.push('ran') })
  await app.register(quotaPlugin, { authentication: () => localAuthentication('alice'), perMinute: 1 })
  const statuses = []
  for (const url of ['/marked', '/marked', '/mistaken', '/mistaken']) statuses.push((await app.inject({ method: 'POST', url })).statusCode)
  t.same(statuses, [200, 429, 500, 500])
  t.same(handled, [], 'the handler did not run')
  const errors = log.lines.filter(({ level }) => level === 50)
  t.equal(errors.length, 2, 'the mistake is logged even if the error handler of the host logs nothing')
  t.match(errors[0], {
    msg: 'the quota of the request is unknown; the request is not admitted',
    err: { message: /the route POST \/mistaken has a config\.quota that is neither true nor the name of a quota \(default\); it got 'chatt'/ }
  })
})

t.test('a mark has no effect outside the scope of the plugin', async (t) => {
  const app: FastifyInstance = Fastify()
  app.post('/outside', { config: { quota: true } }, ran)
  await app.register(async (scope) => {
    await scope.register(quotaPlugin)
    scope.post('/inside', { config: { quota: true } }, ran)
  }, { prefix: '/scope' })
  t.same([(await app.inject({ method: 'POST', url: '/outside' })).statusCode, (await app.inject({ method: 'POST', url: '/scope/inside' })).statusCode], [200, 401])
})
