// The public contract, "Registering": options, decorators, start-up errors and warnings, encapsulation.
import fastifyEnv from '@fastify/env'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import * as entry from '../lib/index.js'
import quotaPlugin, { localAuthentication, MemoryQuotaStore } from '../lib/index.js'
import { alice, analyze, captureLog, createService } from './support/service.js'

const asAlice = { authentication: () => localAuthentication('alice') }

t.test('the entry point exports the plugin by default and by name', async (t) => {
  t.equal(entry.default, entry.quotaPlugin)
})

t.test('the plugin tells Fastify its name and the Fastify that it is for', async (t) => {
  t.same(Reflect.get(quotaPlugin, Symbol.for('plugin-meta')), { fastify: '5.x', name: 'fastify-llm-quota' })
})

t.test('decorators', async (t) => {
  t.test('quotaStore, quotaConfig and request.quota, and no others', async (t) => {
    const app = Fastify()
    const before = new Set(Object.keys(app))
    await app.register(quotaPlugin)
    app.get('/', async (request) => Object.keys(request))
    await app.ready()
    const added = Object.keys(app).filter((name) => !before.has(name))
    t.same(added.sort(), ['quotaConfig', 'quotaStore'])
    t.ok(app.quotaStore instanceof MemoryQuotaStore)
    t.same(app.quotaConfig, { SERVICE_RATE_LIMIT_PER_MINUTE: 10 })
    t.equal(app.hasRequestDecorator('quota'), true)
    t.equal(app.hasDecorator('getEnvs'), false)
    t.equal(app.hasRequestDecorator('getEnvs'), false)
  })

  t.test('preferences, when given as an option', async (t) => {
    const preferences = new Map()
    const app = Fastify()
    await app.register(quotaPlugin, { preferences })
    t.equal(app.preferences, preferences)
  })

  t.test('the host\'s own quotaStore and preferences are used', async (t) => {
    const app = Fastify()
    const store = new MemoryQuotaStore()
    app.decorate('quotaStore', store)
    app.decorate('preferences', new Map([['rate-limit.per-minute', 1]]))
    await app.register(quotaPlugin, asAlice)
    app.post('/api/analyze', async () => 'ran')
    t.equal((await analyze(app, null)).statusCode, 200)
    t.equal((await analyze(app, null)).statusCode, 429)
    t.equal(app.quotaStore, store)
    t.equal(store.inspect().trackedCallers, 1)
  })

  for (const order of ['before', 'after']) {
    t.test(`the host's own @fastify/env, registered ${order} the plugin, keeps its config and getEnvs`, async (t) => {
      const app = Fastify()
      process.env.OF_THE_HOST = 'yes'
      const host = () => app.register(fastifyEnv, { schema: { type: 'object', properties: { OF_THE_HOST: { type: 'string' } } } })
      if (order === 'before') await host()
      await app.register(quotaPlugin)
      if (order === 'after') await host()
      await app.ready()
      t.same(app.getDecorator('config'), { OF_THE_HOST: 'yes' })
      t.same(app.getEnvs(), { OF_THE_HOST: 'yes' })
    })
  }

  t.test('request.quota tells the handler what was decided', async (t) => {
    const app = Fastify()
    await app.register(quotaPlugin, { ...asAlice, perMinute: 5 })
    app.post('/api/analyze', async (request) => request.quota)
    t.match((await analyze(app, null)).json(), {
      outcome: 'admitted',
      operation: { method: 'POST', path: '/api/analyze' },
      enforced: true,
      limit: 5,
      callerKey: /^[0-9a-f]{64}$/,
      count: 1,
      windowRemaining: 60_000,
      overflow: false
    })
  })
})

t.test('start-up fails, naming the option and the value it got', async (t) => {
  const invalid: [object, RegExp][] = [
    [{ perMinutes: 5 }, /option perMinutes does not exist; it got 5/],
    [{ toString: 5 }, /option toString does not exist/],
    [{ prefix: 'context' }, /option prefix must start with "\/"; it got 'context'/],
    [{ prefix: '' }, /option prefix must start with "\/"; it got ''/],
    [{ prefix: 5 }, /option prefix .* it got 5/],
    [{ operations: 'POST /api' }, /option operations must be an array .* it got 'POST \/api'/],
    [{ operations: [null] }, /option operations\[0\]\.method must be an HTTP method; it got undefined/],
    [{ operations: [{ method: 'POST', path: '/a' }, { method: 'P OST', path: '/b' }] }, /option operations\[1\]\.method .* it got 'P OST'/],
    [{ operations: [{ method: '', path: '/a' }] }, /option operations\[0\]\.method .* it got ''/],
    [{ operations: [{ method: 'GET', path: 'a' }] }, /option operations\[0\]\.path must start with "\/" .* it got 'a'/],
    ...['/a?b', '/a#b', '/:a', '/a/*'].map((path): [object, RegExp] => [{ operations: [{ method: 'GET', path }] }, /option operations\[0\]\.path must start with/]),
    [{ operations: [{ method: 'GET', path: '/a' }, { method: 'get', path: '/a' }] }, /option operations must each have a path of its own .* it got '\/a'/],
    [{ prefix: '/*/x' }, /option operations must each have a path .* that the router can read .* it got '\/\*\/x\/api\/analyze'/],
    [{ perMinute: 1.5 }, /option perMinute must be an integer; it got 1.5/],
    [{ perMinute: '5' }, /option perMinute must be an integer; it got '5'/],
    [{ perMinute: 2 ** 53 }, /option perMinute must be an integer; it got 9007199254740992/],
    [{ dotenv: 'file' }, /option dotenv must be .* it got 'file'/],
    [{ dotenv: null }, /option dotenv must be .* it got null/],
    [{ authentication: 'session' }, /option authentication must be a function; it got 'session'/],
    [{ mode: 'audit' }, /option mode must be 'enforce' or 'shadow'; it got 'audit'/],
    [{ store: {} }, /option store must be a store with a function acquire; it got {}/],
    [{ store: null }, /option store must be a store .* it got null/],
    [{ preferences: {} }, /option preferences must be a preference reader with a function get; it got {}/],
    [{ preferences: 'x'.repeat(500) }, /it got 'x{99}…$/],
    [{ preferences: 'x'.repeat(98) }, /it got 'x{98}'$/],
    [{ preferences: { first: 'x'.repeat(40), second: 'y'.repeat(40) } }, /it got { first: 'x{40}', second: 'y{30,40}.*…$/],
    [{ preferences: { one: { two: { three: 3 } } } }, /it got { one: { two: \[Object\] } }$/]
  ]
  for (const [options, message] of invalid) {
    const app = Fastify()
    await t.rejects(async () => { await app.register(quotaPlugin, options) }, { code: 'FST_ERR_LLM_QUOTA_OPTION', message }, String(message))
  }
})

t.test('dotenv may be a boolean, or an object', async (t) => {
  for (const dotenv of [true, false, { path: 'no-such-file' }]) {
    const app = Fastify()
    await app.register(quotaPlugin, { dotenv })
    t.same(app.quotaConfig, { SERVICE_RATE_LIMIT_PER_MINUTE: 10 })
  }
})

t.test('an option that is undefined is not given', async (t) => {
  const app = Fastify()
  const options = { prefix: undefined, operations: undefined, store: undefined, preferences: undefined, perMinute: undefined, dotenv: undefined, authentication: undefined, mode: undefined }
  await app.register(quotaPlugin, Object.fromEntries(Object.entries(options)))
  t.equal((await analyze(app, null)).statusCode, 401)
})

t.test('start-up fails where the host has decorated its own and an option gives another', async (t) => {
  for (const [name, value] of Object.entries({ quotaStore: new MemoryQuotaStore(), preferences: new Map() })) {
    const app = Fastify()
    Reflect.apply(app.decorate, app, [name, value])
    const option = name === 'quotaStore' ? 'store' : name
    await t.rejects(async () => { await app.register(quotaPlugin, { [option]: value }) }, { code: 'FST_ERR_LLM_QUOTA_OPTION', message: new RegExp(`option ${option} is given where the host has decorated its own ${name}`) })
  }
})

t.test('start-up fails where what the host decorated cannot be used', async (t) => {
  const app = Fastify()
  app.decorate('quotaStore', JSON.parse('{}'))
  await t.rejects(async () => { await app.register(quotaPlugin) }, /quotaStore, as the host decorated it, must be a store with a function acquire; it got {}/)
  const other = Fastify()
  await other.register(quotaPlugin)
  other.decorate('preferences', JSON.parse('"ten"'))
  await t.rejects(async () => { await other.ready() }, /preferences, as the host decorated it, must be a preference reader with a function get; it got 'ten'/)
})

t.test('a second registration that the same requests would pass through', async (t) => {
  const refused = { code: 'FST_ERR_LLM_QUOTA_SECOND_REGISTRATION', message: /registered a second time .*prefix '\/?\w*'/ }

  t.test('is refused on the same instance', async (t) => {
    const app = Fastify()
    await app.register(quotaPlugin)
    await t.rejects(async () => { await app.register(quotaPlugin) }, refused)
  })

  t.test('is refused within', async (t) => {
    const app = Fastify()
    await app.register(quotaPlugin)
    await t.rejects(async () => {
      await app.register(async (scope) => { await scope.register(async (inner) => { await inner.register(quotaPlugin) }) }, { prefix: '/inner' })
    }, refused)
  })

  t.test('is refused around', async (t) => {
    const app = Fastify()
    await app.register(async (scope) => { await scope.register(quotaPlugin) })
    await t.rejects(async () => { await app.register(quotaPlugin) }, refused)
  })
})

t.test('two sibling scopes have stores of their own', async (t) => {
  const app = Fastify()
  for (const prefix of ['/one', '/two']) {
    await app.register(async (scope) => {
      await scope.register(quotaPlugin, { ...asAlice, perMinute: 1 })
      scope.post('/api/analyze', async () => 'ran')
    }, { prefix })
  }
  const ask = async (url: string) => (await app.inject({ method: 'POST', url })).statusCode
  t.same([await ask('/one/api/analyze'), await ask('/one/api/analyze'), await ask('/two/api/analyze'), await ask('/two/api/analyze')], [200, 429, 200, 429])
  t.equal(app.hasDecorator('quotaStore'), false)
})

t.test('two servers in one process do not know each other', async (t) => {
  const [one, two] = [await createService({ perMinute: 1 }), await createService({ perMinute: 1 })]
  t.same([(await analyze(one, alice)).statusCode, (await analyze(two, alice)).statusCode, (await analyze(one, alice)).statusCode], [200, 200, 429])
})

async function logOf (declare: (app: FastifyInstance) => unknown, options = {}) {
  const log = captureLog()
  const app = Fastify({ logger: log.logger, ...options })
  await declare(app)
  await app.ready()
  return log
}

async function warningsOf (declare: (app: FastifyInstance) => unknown, options = {}): Promise<string[]> {
  return (await logOf(declare, options)).warnings()
}

async function noop (): Promise<void> {}

t.test('start-up warns of HEAD twins of protected operations', async (t) => {
  const ran = async () => 'ran'
  for (const order of ['before', 'after']) {
    const warnings = await warningsOf(async (app) => {
      if (order === 'after') await app.register(quotaPlugin)
      app.get('/api/analyze-node', ran)
      app.get('/api/analyze-stream', { exposeHeadRoute: false }, ran)
      app.get('/api/other', ran)
      if (order === 'before') await app.register(quotaPlugin)
    })
    t.match(warnings, [/^HEAD \/api\/analyze-node runs the handler of the protected GET .* exposeHeadRoute: false/], `declared ${order} the plugin`)
    t.equal(warnings.length, 1)
  }
  t.same(await warningsOf(async (app) => {
    await app.register(quotaPlugin)
    app.get('/api/analyze-node', ran)
  }, { exposeHeadRoutes: false }), [])
  t.equal((await warningsOf(async (app) => {
    await app.register(quotaPlugin, { prefix: '/context' })
    app.get('/context/api/:operation', ran)
  })).length, 2, 'one route serves two protected operations')
})

t.test('start-up warns of a preHandler of a protected route\'s own', async (t) => {
  const ran = async () => 'ran'
  for (const order of ['before', 'after']) {
    const warnings = await warningsOf(async (app) => {
      if (order === 'after') await app.register(quotaPlugin)
      app.post('/api/analyze', { preHandler: noop }, ran)
      app.post('/api/justify-leaf', { preHandler: [noop, noop] }, ran)
      app.get('/api/analyze-node', { exposeHeadRoute: false, preHandler: [] }, ran)
      app.get('/api/analyze-stream', { exposeHeadRoute: false, onRequest: noop, preValidation: noop }, ran)
      app.post('/api/other', { preHandler: noop }, ran)
      if (order === 'before') await app.register(quotaPlugin)
    })
    t.match(warnings, [/^POST \/api\/analyze is protected and has a preHandler of its own/, /^POST \/api\/justify-leaf is protected/], `declared ${order} the plugin`)
    t.equal(warnings.length, 2)
  }
})

t.test('start-up warnings: each names its operation, and the hooks of its route alone, wherever the route stands', async (t) => {
  const ran = async () => 'ran'
  async function first (): Promise<void> {}
  async function second (): Promise<void> {}
  for (const root of [true, false]) {
    const { lines } = await logOf(async (app) => {
      await app.register(quotaPlugin)
      if (root) app.get('/', ran)
      app.get('/api', ran)
      app.get('/api/:operation', { preHandler: first }, ran)
      app.get('/api/analyze', { preHandler: first }, ran)
      app.post('/api/analyze', { preHandler: [first, second] }, ran)
      app.route({ method: ['POST', 'PUT'], url: '/api/analyze/deeper/still', preHandler: second, handler: ran })
      app.post('/api/justify-leaf', { constraints: { host: 'one.example' }, preHandler: second }, ran)
      app.post('/api/justify-leaf', ran)
      app.get('/api/analyze-stream', { onRequest: noop, preHandler: second, onSend: noop }, ran)
      app.get('/elsewhere/below', { preHandler: noop }, ran)
    })
    t.same(lines.filter(({ level }) => level === 40).map(({ operation, preHandlers, msg }) => [operation, preHandlers, /^[A-Z]+ \S+/.exec(String(msg))?.[0]]), [
      [{ method: 'POST', path: '/api/analyze' }, ['first()', 'second()'], 'POST /api/analyze'],
      [{ method: 'POST', path: '/api/justify-leaf' }, ['second()'], 'POST /api/justify-leaf'],
      [{ method: 'GET', path: '/api/analyze-stream' }, undefined, 'HEAD /api/analyze-stream'],
      [{ method: 'GET', path: '/api/analyze-stream' }, ['second()'], 'GET /api/analyze-stream'],
      [{ method: 'GET', path: '/api/analyze-node' }, undefined, 'HEAD /api/:operation'],
      [{ method: 'GET', path: '/api/analyze-node' }, ['first()'], 'GET /api/:operation']
    ])
  }
})

t.test('start-up warnings: a handler that the host itself gave to HEAD and a protected method is its own business', async (t) => {
  t.same(await warningsOf(async (app) => {
    await app.register(quotaPlugin)
    app.route({ method: ['HEAD', 'POST'], url: '/api/analyze', handler: async () => 'ran' })
  }), [])
})

t.test('start-up warnings: a route is looked for as the host\'s router looks', async (t) => {
  const route = async (app: FastifyInstance) => {
    await app.register(quotaPlugin)
    app.get('/api/:operation', async () => 'ran')
  }
  t.equal((await warningsOf(route, { routerOptions: { maxParamLength: 12 } })).length, 1, 'a parameter longer than 12 characters reaches no route')
  t.equal((await warningsOf(route, { routerOptions: { maxParamLength: 11 } })).length, 0)
  t.equal((await warningsOf(async (app) => {
    await app.register(quotaPlugin)
    app.get('/api/:operation(^(?:[a-z]+-?)*$)', async () => 'ran')
  }, { routerOptions: { allowUnsafeRegex: true } })).length, 2, 'a pattern that only this host allows')
})

t.test('start-up warnings: no pattern, however odd, keeps a server from starting or hides another route', async (t) => {
  const ran = async () => 'ran'
  for (const odd of ['/a b', '/a b/api', '/api/analyze (GET)', '/api/analyze (GET) x/y', '/one\ntwo', '/one\n-two', '/one\n:id(^\\d+$)', '/one\n::two', '/:id(^a\n:b(c)$)', '/:id(^(?:a\n:b(c|d))$)', '/(POST)', '/•/ (preHandler) ["x()"]', '/│   /x', '/one\n• (preHandler) [oops]\ntwo', '/api/analyze\u0000']) {
    t.match(await warningsOf(async (app) => {
      await app.register(quotaPlugin)
      app.get('/api/*', ran)
      for (const path of [odd, `${odd}/api`, `${odd}-more`]) app.get(path, ran)
      app.post('/api/analyze', { preHandler: noop }, ran)
    }, { exposeHeadRoutes: false }), [/^POST \/api\/analyze is protected/], JSON.stringify(odd))
  }
})

t.test('start-up warnings: a preHandler of the instance before the plugin comes early enough', async (t) => {
  t.same(await warningsOf(async (app) => {
    app.addHook('preHandler', noop)
    await app.register(quotaPlugin)
    app.post('/api/analyze', async () => 'ran')
  }), [])
})

t.test('start-up warnings: routes outside of the plugin\'s scope, and listings that cannot be read, warn of nothing', async (t) => {
  t.same(await warningsOf(async (app) => {
    await app.register(async (scope) => { await scope.register(quotaPlugin) })
    app.post('/api/analyze', { preHandler: noop }, async () => 'ran')
  }), [])
  t.same(await warningsOf(async (app) => {
    await app.register(quotaPlugin)
    app.post('/a::b/:c(^[a-z]+$)', { preHandler: noop }, async () => 'ran')
    app.route({ method: ['POST', 'PUT'], url: '/x/:id/y', handler: async () => 'ran' })
    app.post('/x::/*', async () => 'ran')
  }), [])
})
