// The log when the server is ready: what is protected, and warnings about probable mistakes.
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import quotaPlugin, { InsuredQuotaStore, protectedOperations, type QuotaOptions } from '../../lib/index.js'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { captureLog } from '../support/service.js'

type Declare = (app: FastifyInstance) => unknown

interface Host {
  /** Options of the plugin; `false` if `after` registers it. */
  options?: QuotaOptions | false
  server?: FastifyServerOptions
  /** Declares routes before the plugin is registered. */
  before?: Declare
  /** Declares routes after the plugin is registered. */
  after?: Declare
}

async function start ({ options = {}, server = {}, before = () => {}, after = () => {} }: Host) {
  const log = captureLog()
  const app: FastifyInstance = Fastify({ logger: log.logger, ...server })
  await before(app)
  if (options !== false) await app.register(quotaPlugin, options)
  await after(app)
  await app.ready()
  return { app, log }
}

async function noop (): Promise<void> {}
const ran = async () => 'ran'
const marked = { config: { quota: true } }
const noHead = { exposeHeadRoute: false }

/** Declares the four default operations. */
const declareAll = (prefix = ''): Declare => (app) => {
  for (const { method, path } of protectedOperations) app.route({ method, url: prefix + path, ...noHead, handler: ran })
}
/** Declares a route for POST. */
const post = (pattern: string, options = {}): Declare => (app) => app.post(pattern, options, ran)
const get = (pattern: string, options = {}): Declare => (app) => app.get(pattern, options, ran)
const all = (...declarations: Declare[]): Declare => (app) => { for (const declare of declarations) declare(app) }

const translate = { method: 'POST', path: '/api/translate' }
const operations = [translate]
const slashed = [{ method: 'POST', path: '/api/slashed/' }]
const chat = { operations }

t.test('one info line lists what each quota protects, with its limit', async (t) => {
  const quotas = { chat: { operations: [{ ...translate, method: 'post' }], perDay: { tokens: 60 }, unreported: 5 }, images: { mode: 'shadow', inFlight: 2 }, off: { perHour: 0 } } as const
  const { log: { lines } } = await start({
    options: { prefix: '/context', perMinute: 20, quotas },
    after: all(declareAll('/context'), post('/context/api/translate'), get('/v1/models/:model', { config: { quota: ['chat', 'images'] } }), post('/v1/models/:model', marked), post('/v1/other', { config: { quota: () => 'off' } }))
  })
  const asDecided = 'POST /v1/other (as its function decides)'
  t.match(lines, [{
    level: 30,
    protections: [
      { quota: 'default', limit: 'per-minute', unit: 'requests', configured: 20, isEnforced: true, operations: [...protectedOperations.map(({ method, path }) => `${method} /context${path}`), 'POST /v1/models/:model', asDecided] },
      { quota: 'chat', limit: 'per-day', unit: 'tokens', configured: 60, isEnforced: true, operations: ['POST /context/api/translate', 'GET /v1/models/:model', 'HEAD /v1/models/:model', asDecided] },
      { quota: 'images', limit: 'in-flight', configured: 2, isEnforced: false, operations: ['GET /v1/models/:model', 'HEAD /v1/models/:model', asDecided] },
      { quota: 'off', limit: 'per-hour', configured: 0, isEnforced: true, operations: [asDecided] }
    ],
    msg: /^the quota "default" \(20 requests per minute\) protects POST \/context\/api\/analyze, .*; the quota "chat" \(60 tokens per day\) protects POST .*; the quota "images" \(2 requests-in-flight\) observes GET .*; the quota "off" \(0 requests per hour\) is disabled, and would protect POST/
  }])
  t.equal(lines.length, 1)
})

t.test('the info line tells where a shared store keeps the counters', async (t) => {
  const redis = new RedisQuotaStore({ client: new Redis({ lazyConnect: true }), shards: 4 })
  const postgres = new PostgresQuotaStore({ pool: { query: async () => ({ rows: [] }) }, table: 'limits.chat' })
  for (const [primary, place] of [[redis, { keyPrefix: 'llm-quota:', shards: 4 }], [postgres, { table: 'limits.chat' }]] as const) {
    for (const store of [primary, new InsuredQuotaStore({ primary })]) {
      const { log } = await start({ options: { store }, after: declareAll() })
      t.match(log.lines, [{ level: 30, ...place }])
    }
  }
})

// Each with all of its warnings.
const cases: Record<string, Host & { warnings: RegExp[] }> = {
  'operations of the host\'s own list, and a quota that protects nothing': {
    options: { operations: [translate, { method: 'get', path: '/api/other' }, { method: 'POST', path: '/api/served' }], quotas: { chat: { operations: [{ method: 'POST', path: '/chat' }] } } },
    after: post('/api/served'),
    warnings: [
      /^no route serves POST \/api\/translate, GET \/api\/other\. Check the options prefix and operations.* declared before the plugin cannot be checked$/,
      /^the quota "chat" protects nothing: no route serves POST \/chat\. .*must be wrapped with fastify-plugin.*encapsulation/
    ]
  },
  'the default operations if none is served': { warnings: [/no route serves POST \/api\/analyze, POST \/api\/justify-leaf, GET \/api\/analyze-stream, GET \/api\/analyze-node\./] },
  'each default operation that the host lists itself': { options: { operations: protectedOperations }, after: post('/api/analyze'), warnings: [/no route serves POST \/api\/justify-leaf, GET/] },
  'a quota without operations and marked routes': { options: { operations: [] }, warnings: [/^the quota "default" protects nothing: no route that is declared after the plugin is marked with its name\. /] },
  'the default quota beside named ones if its limit is set': { options: { operations: [], perMinute: 5, quotas: { chat } }, after: post('/api/translate'), warnings: [/^the quota "default" protects nothing: /] },
  'no default operations if the host marks its routes instead': { after: post('/v1/:model', marked), warnings: [] },
  'a forgotten prefix': { after: declareAll('/context'), warnings: [/no route serves POST \/api\/analyze \(the route POST \/context\/api\/analyze has a different prefix\), POST/] },
  'a wrong prefix': { options: { prefix: '/contxt' }, after: declareAll('/context'), warnings: [/no route serves POST \/contxt\/api\/analyze \(the route POST \/context\/api\/analyze has a different prefix\), POST/] },
  'an unneeded prefix': { options: { prefix: '/context' }, after: declareAll(), warnings: [/no route serves POST \/context\/api\/analyze \(the route POST \/api\/analyze has a different prefix\), POST/] },
  'a prefix within the path': { options: { operations }, after: post('/translate'), warnings: [/no route serves POST \/api\/translate \(the route POST \/translate has a different prefix\)\./] },
  'a wrong method': { options: { operations }, after: get('/api/translate'), warnings: [/no route serves POST \/api\/translate \(the path has a route with another method: GET, HEAD\)\./] },
  'a wrong prefix in a scope that has a prefix, before the plugin': {
    options: false,
    after: (app) => app.register(async (scope) => {
      post('/api/translate')(scope)
      await scope.register(quotaPlugin, { prefix: '/context', operations })
    }, { prefix: '/v1' }),
    warnings: [/no route serves POST \/context\/api\/translate \(the route POST \/v1\/api\/translate has a different prefix\)\./]
  },
  'no operation that the route / of a scope serves with a slash at its end': {
    options: { operations: slashed }, after: (app) => app.register(async (scope) => { post('/')(scope) }, { prefix: '/api/slashed' }), warnings: []
  },
  'no root route for an operation that ends with a slash': { options: { operations: slashed }, after: post('/'), warnings: [/no route serves POST \/api\/slashed\/\. Check/] },
  'a route outside the scope of the plugin': {
    options: false,
    after: async (app) => { await app.register(async (scope) => { await scope.register(quotaPlugin) }); post('/api/analyze')(app) },
    warnings: [/^the quota "default" protects nothing: no route serves POST \/api\/analyze \(its route is outside the scope in which the plugin is registered\).*must be wrapped with fastify-plugin.*\(encapsulation\)/]
  },
  'no operation that a route before the plugin serves': { options: { operations }, before: post('/api/translate'), warnings: [] },
  'that a parametric route before the plugin cannot be checked': {
    options: { operations }, before: post('/api/:operation'), warnings: [/no route serves POST \/api\/translate\. .*Marked routes and routes with parameters, wildcards or constraints that are declared before the plugin cannot be checked$/]
  },
  'no pattern that the router treats as equal to another': {
    after: all(get('/:one/same', { ...noHead, constraints: { host: 'one.example' } }), get('/:other/same', { ...noHead, constraints: { host: 'other.example' } }), post('/api/analyze')), warnings: []
  },
  'the one HEAD route of two protected operations': { options: { prefix: '/context' }, after: get('/context/api/:operation'), warnings: [/^HEAD/] },
  'no HEAD route of a marked route, which is also subject': { after: get('/api/analyze-node', marked), warnings: [] },
  'the HEAD route of one of several routes that differ in their constraints': {
    after: (app) => {
      app.get('/api/analyze-node', { ...noHead, constraints: { host: 'one.example' } }, async () => 'one')
      app.get('/api/analyze-node', { constraints: { host: 'two.example' } }, async () => 'two')
    },
    warnings: [/^HEAD \/api\/analyze-node runs the handler of the protected GET/]
  },
  'no HEAD route with its own handler': {
    after: (app) => {
      app.head('/api/analyze-node', noop)
      app.get('/api/analyze-node', ran)
      app.route({ method: ['HEAD', 'POST'], url: '/api/analyze', handler: ran })
    },
    warnings: []
  },
  'each protected route with its own preHandler, which runs after the quota': {
    before: (app) => app.addHook('preHandler', noop),
    after: all(
      post('/api/analyze', { preHandler: noop }), post('/api/justify-leaf', { preHandler: [noop, noop] }), get('/api/analyze-node', { ...noHead, preHandler: [] }),
      get('/api/analyze-stream', { ...noHead, onRequest: noop, preValidation: noop }), get('/api/models/:model', { ...marked, preHandler: noop }), post('/api/other', { preHandler: noop })
    ),
    warnings: [/^POST \/api\/analyze is protected and has a preHandler of its own, which runs after the quota/, /^POST \/api\/justify-leaf is protected/, /^GET \/api\/models\/:model is protected/]
  },
  'the preHandler of a marked route that is also a listed operation, once': { after: post('/api/analyze', { ...marked, preHandler: noop }), warnings: [/^POST \/api\/analyze is protected/] },
  'a preHandler that another plugin adds to a route': {
    after: all((app) => app.addHook('onRoute', (route) => { route.preHandler = [noop] }), post('/api/analyze')), warnings: [/^POST \/api\/analyze is protected/]
  },
  'the HEAD route of a pattern that the router accepts only with allowUnsafeRegex': { server: { routerOptions: { allowUnsafeRegex: true } }, after: get('/api/:operation(^(?:[a-z]+-?)*$)'), warnings: [/^HEAD \/api\/:operation/] }
}

function testWarnings (what: string, host: Host, warnings: RegExp[]): void {
  t.test(`the warnings name ${what}`, async (t) => {
    const { log } = await start(host)
    t.match(log.warnings(), warnings)
    t.equal(log.warnings().length, warnings.length)
    t.ok(log.lines.filter(({ level }) => level === 40).every(({ operation, operations }) => Array.isArray(operations) || operation !== undefined))
  })
}

for (const [what, { warnings, ...host }] of Object.entries(cases)) testWarnings(what, host, warnings)

for (const pattern of ['/api/translate', '/api/:operation', '/:a/:b', '/api/*', '*', '/api/:operation(^[a-z]+$)']) {
  testWarnings(`no operation that ${pattern} serves`, { options: { operations }, after: post(pattern) }, [])
}

for (const order of ['before', 'after']) {
  for (const [routerOptions, pattern] of [[{ caseSensitive: false }, '/API/Translate'], [{ ignoreTrailingSlash: true }, '/api/translate/'], [{ ignoreDuplicateSlashes: true }, '//api//translate']] as const) {
    testWarnings(`no operation that ${pattern} serves as the router reads paths, ${order} the plugin`, { options: { operations }, server: { routerOptions }, [order]: post(pattern) }, [])
  }
  const routes = all(get('/api/analyze-node'), get('/api/analyze-stream', noHead), get('/api/other'))
  testWarnings(`the HEAD route of a protected GET operation, ${order} the plugin`, { [order]: routes }, [/^HEAD \/api\/analyze-node runs the handler of the protected GET .* exposeHeadRoute: false/])
}

t.test('each warning contains its operation and only the hooks of its route, wherever the route is declared', async (t) => {
  async function first (): Promise<void> {}
  async function second (): Promise<void> {}
  const { log } = await start({
    after (app) {
      all(get('/'), get('/api'), get('/api/:operation', { preHandler: first }), get('/api/analyze', { preHandler: first }), post('/api/analyze', { preHandler: [first, second] }))(app)
      app.route({ method: ['POST', 'PUT'], url: '/api/analyze/deeper/still', preHandler: second, handler: ran })
      all(post('/api/justify-leaf', { constraints: { host: 'one.example' }, preHandler: second }), post('/api/justify-leaf'))(app)
      all(get('/api/analyze-stream', { onRequest: noop, preHandler: [second, async () => {}], onSend: noop }), get('/elsewhere/below', { preHandler: noop }))(app)
    }
  })
  t.same(log.lines.filter(({ level }) => level === 40).map(({ operation, preHandlers, msg }) => [operation, preHandlers, /^[A-Z]+ \S+/.exec(String(msg))?.[0]]), [
    [{ method: 'POST', path: '/api/analyze' }, ['first()', 'second()'], 'POST /api/analyze'],
    [{ method: 'POST', path: '/api/justify-leaf' }, ['second()'], 'POST /api/justify-leaf'],
    [{ method: 'GET', path: '/api/analyze-stream' }, undefined, 'HEAD /api/analyze-stream'],
    [{ method: 'GET', path: '/api/analyze-stream' }, ['second()', 'anonymous()'], 'GET /api/analyze-stream'],
    [{ method: 'GET', path: '/api/:operation' }, undefined, 'HEAD /api/:operation'],
    [{ method: 'GET', path: '/api/:operation' }, ['first()'], 'GET /api/:operation']
  ])
})

t.test('the operation / of a scope with a prefix is counted, and no warning says that no route serves it', async (t) => {
  for (const prefix of ['/context', '/:tenant']) {
    const { log, app } = await start({
      options: false,
      after: (app) => app.register(async (scope) => { await scope.register(quotaPlugin, { operations: [{ method: 'POST', path: '/' }] }); post('/')(scope) }, { prefix })
    })
    for (const url of ['/context', '/context/']) t.equal((await app.inject({ method: 'POST', url })).statusCode, 401, prefix)
    t.same(log.warnings(), [], prefix)
  }
})

for (const order of ['before', 'after'] as const) {
  for (const marked of ['the GET route alone', 'both routes']) {
    t.test(`the HEAD twin is subject to the quota or a warning names it, if a hook added ${order} the plugin marks ${marked}`, async (t) => {
      const mark: Declare = (app) => app.addHook('onRoute', (route) => { if (marked === 'both routes' || route.method === 'GET') route.config = { ...route.config, quota: true } })
      const declare = get('/v1/models/:model')
      const { log, app } = await start({ options: { operations: [] }, ...(order === 'before' ? { before: mark, after: declare } : { after: all(mark, declare) }) })
      const statusOf = async (method: 'GET' | 'HEAD') => (await app.inject({ method, url: '/v1/models/a' })).statusCode
      t.equal(await statusOf('GET'), 401)
      const isWarned = log.warnings().some((warning) => warning.startsWith('HEAD /v1/models/:model runs the handler of the protected GET'))
      t.equal(await statusOf('HEAD') === 401, !isWarned)
    })
  }
}
