// Registration: options, decorators, start-up errors, encapsulation.
import fastifyEnv from '@fastify/env'
import Fastify from 'fastify'
import t from 'tap'
import * as entry from '../../lib/index.js'
import quotaPlugin, { localAuthentication, MemoryQuotaStore } from '../../lib/index.js'
import { alice, analyze, createService } from '../support/service.js'

const asAlice = { authentication: () => localAuthentication('alice') }

t.test('the entry point fastify-llm-quota has a default and a named export of the plugin', async (t) => {
  t.equal(entry.default, entry.quotaPlugin)
})

t.test('the plugin declares its name and the supported Fastify versions', async (t) => {
  t.same(Reflect.get(quotaPlugin, Symbol.for('plugin-meta')), { fastify: '5.x || ^6.0.0-alpha.4', name: 'fastify-llm-quota' })
})

t.test('the plugin adds its decorators and keeps those of the host', async (t) => {
  t.test('the plugin decorates quotaStore, quotaConfig, quotaStanding, quotaCharge, request.quota and request.quotaDecisions only', async (t) => {
    const app = Fastify()
    const before = new Set(Object.keys(app))
    await app.register(quotaPlugin)
    app.get('/', async (request) => Object.keys(request))
    await app.ready()
    const added = Object.keys(app).filter((name) => !before.has(name))
    t.same(added.sort(), ['quotaCharge', 'quotaConfig', 'quotaStanding', 'quotaStore'])
    t.ok(app.quotaStore instanceof MemoryQuotaStore)
    t.same(app.quotaConfig, { SERVICE_RATE_LIMIT_PER_MINUTE: 10 })
    t.same(['quota', 'quotaDecisions'].map((name) => app.hasRequestDecorator(name)), [true, true])
    t.equal(app.hasDecorator('getEnvs'), false)
    t.equal(app.hasRequestDecorator('getEnvs'), false)
  })

  t.test('preferences are decorated if the option is set', async (t) => {
    const preferences = new Map()
    const app = Fastify()
    await app.register(quotaPlugin, { preferences })
    t.equal(Reflect.get(app, 'preferences'), preferences)
  })

  t.test('no preferences are decorated if the option is false', async (t) => {
    const app = Fastify()
    await app.register(quotaPlugin, { preferences: false })
    t.equal(app.hasDecorator('preferences'), false)
  })

  t.test('the quotaStore and the preferences that the host has decorated are used', async (t) => {
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
    t.test(`an @fastify/env that the host registers ${order} the plugin keeps its config and getEnvs`, async (t) => {
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

  t.test('request.quota contains the decision for the handler', async (t) => {
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

t.test('start-up fails with an error that contains the option and its value', async (t) => {
  const invalid: [object, RegExp][] = [
    [{ perMinutes: 5 }, /option perMinutes does not exist; it got 5/],
    [{ toString: 5 }, /option toString does not exist/],
    [{ prefix: 'context' }, /option prefix must start with "\/"; it got "context"/],
    [{ prefix: '' }, /option prefix must start with "\/"; it got ""/],
    [{ prefix: 5 }, /option prefix .* it got 5/],
    [{ operations: 'POST /api' }, /option operations must be an array .* it got "POST \/api"/],
    [{ operations: [null] }, /option operations\[0\] must be an object { method, path }; it got null/],
    [{ operations: ['POST /api'] }, /option operations\[0\] must be an object { method, path }; it got "POST \/api"/],
    [{ operations: [{}] }, /option operations\[0\]\.method must be an HTTP method; it got undefined/],
    [{ operations: [{ method: 'POST', path: '/a' }, { method: 'P OST', path: '/b' }] }, /option operations\[1\]\.method .* it got "P OST"/],
    [{ operations: [{ method: '', path: '/a' }] }, /option operations\[0\]\.method .* it got ""/],
    [{ operations: [{ method: 'GET', path: 'a' }] }, /option operations\[0\]\.path must start with "\/" .* it got "a"/],
    ...['/a?b', '/a#b', '/:a', '/a/*'].map((path): [object, RegExp] => [{ operations: [{ method: 'GET', path }] }, /option operations\[0\]\.path must start with/]),
    [{ perMinute: 1.5 }, /option perMinute must be an integer; it got 1.5/],
    [{ perMinute: '5' }, /option perMinute must be an integer; it got "5"/],
    [{ perMinute: 2 ** 53 }, /option perMinute must be an integer; it got 9007199254740992/],
    [{ dotenv: 'file' }, /option dotenv must be .* it got "file"/],
    [{ dotenv: null }, /option dotenv must be .* it got null/],
    [{ authentication: 'session' }, /option authentication must be a function; it got "session"/],
    [{ mode: 'audit' }, /option mode must be 'enforce' or 'shadow'; it got "audit"/],
    [{ store: {} }, /option store must be a store with a function acquire; it got an object/],
    ...[0, -1, 2 ** 31].map((preferenceTimeout): [object, RegExp] => [{ preferenceTimeout }, /option preferenceTimeout must be a number of milliseconds above 0, at most 2147483647; it got/]),
    ...[1.5, '5', null].map((preferenceTimeout): [object, RegExp] => [{ preferenceTimeout }, /option preferenceTimeout must be an integer; it got/]),
    [{ rateLimitHeaders: 'draft-7' }, /option rateLimitHeaders must be 'draft-10'; it got "draft-7"/],
    [{ rateLimitHeaders: true }, /option rateLimitHeaders must be 'draft-10'; it got true/],
    [{ refusalBody: {} }, /option refusalBody must be a function; it got an object/],
    [{ preferences: true }, /option preferences must be a preference reader .* it got true/],
    [{ store: null }, /option store must be a store .* it got null/],
    [{ preferences: {} }, /option preferences must be a preference reader with a function get; it got an object/],
    [{ prefix: 'x'.repeat(500) }, /it got "x{100}…"$/],
    [{ prefix: 'x'.repeat(100) }, /it got "x{100}"$/],
    [{ store: { password: 'hunter2' } }, /option store must be a store .* it got an object$/],
    [{ preferences: () => 'hunter2' }, /option preferences must be a preference reader .* it got a function$/],
    [{ prefix: 'redis://user:hunter2@host' }, /option prefix must start with "\/"; it got a URL$/]
  ]
  for (const [options, message] of invalid) {
    const app = Fastify()
    await t.rejects(async () => { await app.register(quotaPlugin, options) }, { code: 'FST_ERR_LLM_QUOTA_OPTION', message }, String(message))
  }
})

t.test('the option dotenv can be a boolean or an object', async (t) => {
  for (const dotenv of [true, false, { path: 'no-such-file' }]) {
    const app = Fastify()
    await app.register(quotaPlugin, { dotenv })
    t.same(app.quotaConfig, { SERVICE_RATE_LIMIT_PER_MINUTE: 10 })
  }
})

t.test('the option preferenceTimeout can be as short and as long as the timers of Node.js support', async (t) => {
  for (const preferenceTimeout of [1, 2 ** 31 - 1]) {
    const app = Fastify()
    await t.resolves(async () => { await app.register(quotaPlugin, { preferenceTimeout }) }, String(preferenceTimeout))
  }
})

t.test('the option rateLimitHeaders can be \'draft-10\'', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { ...asAlice, rateLimitHeaders: 'draft-10' })
  app.post('/api/analyze', async () => 'ran')
  t.match((await analyze(app, null)).headers, { 'ratelimit-policy': '"default";q=10;w=60' })
})

t.test('an undefined option counts as not set', async (t) => {
  const app = Fastify()
  const options = { prefix: undefined, operations: undefined, store: undefined, preferences: undefined, perMinute: undefined, dotenv: undefined, authentication: undefined, mode: undefined }
  await app.register(quotaPlugin, Object.fromEntries(Object.entries(options)))
  t.equal((await analyze(app, null)).statusCode, 401)
})

t.test('start-up fails if the option store is set and the host has decorated its own store', async (t) => {
  const app = Fastify()
  app.decorate('quotaStore', new MemoryQuotaStore())
  await t.rejects(async () => { await app.register(quotaPlugin, { store: new MemoryQuotaStore() }) }, { code: 'FST_ERR_LLM_QUOTA_OPTION', message: /option store must not be set, because the host has decorated its own quotaStore/ })
})

t.test('start-up fails if the quotaStore or the preferences of the host are invalid', async (t) => {
  const app = Fastify()
  app.decorate('quotaStore', JSON.parse('{}'))
  await t.rejects(async () => { await app.register(quotaPlugin) }, /quotaStore, as the host decorated it, must be a store with a function acquire; it got an object/)
  const other = Fastify()
  await other.register(quotaPlugin)
  other.decorate('preferences', JSON.parse('"ten"'))
  await t.rejects(async () => { await other.ready() }, /preferences, as the host decorated it .*, must be a preference reader with a function get; it got a string/)
})

t.test('a second registration that the same requests would pass through fails', async (t) => {
  const failure = { code: 'FST_ERR_LLM_QUOTA_SECOND_REGISTRATION', message: /registered a second time .*\(prefix "\/?\w*"\).* define further quotas with the option quotas/ }

  t.test('a second registration on the same instance fails', async (t) => {
    const app = Fastify()
    await app.register(quotaPlugin)
    await t.rejects(async () => { await app.register(quotaPlugin) }, failure)
  })

  t.test('a second registration in a child scope fails', async (t) => {
    const app = Fastify()
    await app.register(quotaPlugin)
    await t.rejects(async () => {
      await app.register(async (scope) => { await scope.register(async (inner) => { await inner.register(quotaPlugin) }) }, { prefix: '/inner' })
    }, failure)
  })

  t.test('a second registration in a parent scope fails', async (t) => {
    const app = Fastify()
    await app.register(async (scope) => { await scope.register(quotaPlugin) })
    await t.rejects(async () => { await app.register(quotaPlugin) }, failure)
  })
})

t.test('two sibling scopes have separate stores', async (t) => {
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

t.test('two servers in one process count separately', async (t) => {
  const [one, two] = [await createService({ perMinute: 1 }), await createService({ perMinute: 1 })]
  t.same([(await analyze(one, alice)).statusCode, (await analyze(two, alice)).statusCode, (await analyze(one, alice)).statusCode], [200, 200, 429])
})

t.test('Fastify\'s own options of register are accepted', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { prefix: '/context', logLevel: 'warn', logSerializers: {} })
  app.post('/context/api/analyze', async () => 'ran')
  t.equal((await app.inject({ method: 'POST', url: '/context/api/analyze' })).statusCode, 401)
})

t.test('start-up fails if the host already has a request decorator of the plugin', async (t) => {
  for (const name of ['quota', 'quotaDecisions']) {
    const app = Fastify()
    Reflect.apply(app.decorateRequest, app, [name, null])
    await t.rejects(async () => { await app.register(quotaPlugin) }, { code: 'FST_ERR_LLM_QUOTA_DECORATOR', message: new RegExp(`requests already have a decorator "${name}"`) })
  }
})
