// docs/rules.md, "Subject": routes that are marked with a quota.
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, type QuotaOptions } from '../../lib/index.js'

const ran = async () => 'ran'

async function create (options: QuotaOptions = {}, declare: (app: FastifyInstance) => void = () => {}, server = {}): Promise<FastifyInstance> {
  const app = Fastify(server)
  await app.register(quotaPlugin, { authentication: ({ headers }) => localAuthentication(String(headers['x-caller'] ?? 'alice')), perMinute: 1, ...options })
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

t.test('a route that is marked with one quota and could be reached as an operation of another is subject to both', async (t) => {
  const app = await create({ quotas: { chat: {} } }, (app) => { app.post('/api/:operation', { config: { quota: 'chat' } }, async ({ quotaDecisions }) => quotaDecisions.map(({ quota, operation }) => `${quota} ${operation.path}`)) })
  t.same((await app.inject({ method: 'POST', url: '/api/analyze' })).json(), ['default /api/analyze', 'chat /api/:operation'])
  t.same((await app.inject({ method: 'POST', url: '/api/other' })).json(), ['chat /api/:operation'])
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

t.test('start-up fails if a mark names a quota that does not exist', async (t) => {
  const failure = (value: string) => ({ code: 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA', message: new RegExp(`the config\\.quota of the route POST /v1/:model must be true, false, the name of a quota \\(default, chat\\), an array of names, or a function; it got ${value}$`) })
  for (const [mark, value] of [['chatt', '"chatt"'], [['chat', 'chatt'], '"chatt"'], [5, '5'], ['', '""'], ['true', '"true"'], [{}, 'an object'], [[true], 'true'], ['__proto__', '"__proto__"']] as const) {
    const app = await create({ quotas: { chat: {} } })
    t.throws(() => app.post('/v1/:model', { config: { quota: mark } as object }, ran), failure(value))
    await t.rejects(async () => {
      const app = await create({ quotas: { chat: {} } })
      await app.register(async (scope) => { scope.post('/v1/:model', { config: { quota: mark } as object }, ran) })
    }, failure(value), 'within a plugin')
  }
})

t.test('a marked route that is declared before the plugin is subject to the quota', async (t) => {
  const app: FastifyInstance = Fastify()
  app.post('/marked', { config: { quota: true } }, ran)
  app.post('/function', { config: { quota: () => 'default' } }, ran)
  await app.register(quotaPlugin, { authentication: () => localAuthentication('alice'), perMinute: 2 })
  const statuses = []
  for (const url of ['/marked', '/function', '/marked', '/function']) statuses.push((await app.inject({ method: 'POST', url })).statusCode)
  t.same(statuses, [200, 200, 429, 429])
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

t.test('the operation of a marked route is its pattern without the prefix: / at the prefix itself, all of the pattern outside of it', async (t) => {
  const app = await create({ prefix: '/context' }, (app) => {
    for (const url of ['/context', '/context/x', '/other']) app.post(url, { config: { quota: true } }, ran)
  })
  for (const [url, path] of [['/context', '/'], ['/context/x', '/x'], ['/other', '/other']] as const) t.match(await ask(app, 'POST', url), [Number, `default POST ${path}`])
})
