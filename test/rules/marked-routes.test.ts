// docs/rules.md, "Subject": routes that are marked with a quota.
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { type QuotaOptions } from '../../lib/index.js'
import { asAlice, captureLog } from '../support/service.js'

const ran = async () => 'ran'
const marked = { config: { quota: true } }

interface Case {
  options?: QuotaOptions
  declare: (app: FastifyInstance) => void
  /** Requests one after another: method and URL, status, and the quota and operation of the decision, or none. */
  requests: [request: string, status: number, decision: string][]
}

const cases: Record<string, Case> = {
  'a marked route is subject to the quota with any parameters, and the operation is its method and pattern': {
    options: { perMinute: 2 },
    declare: (app) => { app.post('/v1/models/:model/generate', marked, ran) },
    requests: [
      ['POST /v1/models/a/generate', 200, 'default POST /v1/models/:model/generate'], ['POST /v1/models/b/generate?x', 200, 'default POST /v1/models/:model/generate'],
      ['POST /v1/models/%63/generate', 429, 'default POST /v1/models/:model/generate'], ['POST /v1/models/a', 404, 'none']
    ]
  },
  'the HEAD route of a marked route is also subject to the quota': {
    options: { perMinute: 2 },
    declare: (app) => { app.get('/stream', marked, ran) },
    requests: [['HEAD /stream', 200, 'default HEAD /stream'], ['GET /stream', 200, 'default GET /stream'], ['HEAD /stream', 429, 'default HEAD /stream']]
  },
  'each method of a marked route is an operation': {
    options: { perMinute: 2 },
    declare: (app) => { app.route({ method: ['GET', 'POST'], url: '/both', ...marked, handler: ran }) },
    requests: [['GET /both', 200, 'default GET /both'], ['POST /both', 200, 'default POST /both'], ['GET /both', 429, 'default GET /both']]
  },
  'the path of the operation is the pattern without the prefix: / at the prefix itself, all of the pattern outside of it': {
    options: { prefix: '/context', perMinute: 9 },
    declare: (app) => { for (const url of ['/context', '/context/v1/:model', '/contexts/v1']) app.post(url, marked, ran) },
    requests: [['POST /context', 200, 'default POST /'], ['POST /context/v1/a', 200, 'default POST /v1/:model'], ['POST /contexts/v1', 200, 'default POST /contexts/v1']]
  },
  'a route that is marked with one quota and could be reached as an operation of another is subject to both': {
    options: { perMinute: 9, quotas: { chat: {} } },
    declare: (app) => { app.post('/api/:operation', { config: { quota: 'chat' } }, ran) },
    requests: [['POST /api/analyze', 200, 'default POST /api/analyze, chat POST /api/:operation'], ['POST /api/other', 200, 'chat POST /api/:operation']]
  },
  'a route that is both marked and an operation of the same quota is counted once': {
    declare: (app) => { app.post('/api/analyze', marked, ran) },
    requests: [['POST /api/analyze', 200, 'default POST /api/analyze'], ['POST /api/analyze', 429, 'default POST /api/analyze']]
  }
}

for (const [name, { options, declare, requests }] of Object.entries(cases)) {
  t.test(name, async (t) => {
    const app = Fastify()
    await app.register(quotaPlugin, { authentication: asAlice, perMinute: 1, ...options })
    app.addHook('onSend', async ({ quotaDecisions }, reply) => { reply.header('x-quota', quotaDecisions.map(({ quota, operation: { method, path } }) => `${quota} ${method} ${path}`).join(', ') || 'none') })
    declare(app)
    for (const [request, status, decision] of requests) {
      const [method, url = ''] = request.split(' ')
      const { statusCode, headers } = await app.inject({ method: method as 'GET', url })
      t.same([statusCode, headers['x-quota']], [status, decision], request)
    }
  })
}

t.test('start-up fails if a mark names a quota that does not exist', async (t) => {
  const failure = (value: string) => ({ code: 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA', message: new RegExp(`the config\\.quota of the route POST /v1/:model must be true, false, the name of a quota \\(default, chat\\), an array of names, or a function that returns one of these; it got ${value}$`) })
  for (const [mark, value] of [['chatt', '"chatt"'], [['chat', 'chatt'], '"chatt"'], [5, '5'], ['', '""'], ['true', '"true"'], [{}, 'an object'], [[true], 'true'], ['__proto__', '"__proto__"']] as const) {
    const app = Fastify()
    await app.register(quotaPlugin, { quotas: { chat: {} } })
    const declare = (scope: FastifyInstance) => { scope.post('/v1/:model', { config: { quota: mark } as object }, ran) }
    t.throws(() => { declare(app) }, failure(value))
    await t.rejects(async () => { await app.register(async (scope) => { declare(scope) }) }, failure(value), 'within a plugin')
  }
})

t.test('a marked route that is declared before the plugin is subject to the quota, and one that names no quota gets 503, or passes in shadow mode', async (t) => {
  for (const [mode, expected] of [['enforce', [200, 200, 429, 503, 503]], ['shadow', [200, 200, 200, 200, 200]]] as const) {
    const log = captureLog()
    const app: FastifyInstance = Fastify({ logger: log.logger })
    app.post('/marked', marked, ran)
    app.post('/function', { config: { quota: () => 'default' } }, ran)
    app.post('/mistaken', { config: { quota: 'chatt' } }, ran)
    await app.register(quotaPlugin, { authentication: asAlice, perMinute: 2, mode })
    const statuses = []
    for (const url of ['/marked', '/function', '/marked', '/mistaken', '/mistaken']) statuses.push((await app.inject({ method: 'POST', url })).statusCode)
    t.same(statuses, expected)
    t.match(log.lines.filter(({ level }) => level === 50), [{ err: { code: 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA', message: /POST \/mistaken .*it got "chatt"$/ } }, {}])
  }
})

t.test('a request for which the function of a mark returns false passes, even without a caller', async (t) => {
  const app: FastifyInstance = Fastify()
  await app.register(quotaPlugin, { operations: [] })
  app.post('/function', { config: { quota: ({ headers }) => headers['x-exempt'] === undefined } }, ran)
  const statusOf = async (headers: Record<string, string>) => (await app.inject({ method: 'POST', url: '/function', headers })).statusCode
  t.same([await statusOf({ 'x-exempt': 'yes' }), await statusOf({})], [200, 401])
})

t.test('a mark has no effect outside the scope of the plugin', async (t) => {
  const app: FastifyInstance = Fastify()
  app.post('/outside', marked, ran)
  await app.register(async (scope) => {
    await scope.register(quotaPlugin)
    scope.post('/inside', marked, ran)
  }, { prefix: '/scope' })
  t.same([(await app.inject({ method: 'POST', url: '/outside' })).statusCode, (await app.inject({ method: 'POST', url: '/scope/inside' })).statusCode], [200, 401])
})
