// The log when the server is ready: what is protected, and warnings about probable mistakes.
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { InsuredQuotaStore, MemoryQuotaStore, protectedOperations } from '../../lib/index.js'
import { captureLog } from '../support/service.js'

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
const ran = async () => 'ran'

function declareAll (app: FastifyInstance, prefix = ''): void {
  for (const { method, path } of protectedOperations) app.route({ method, url: prefix + path, exposeHeadRoute: false, handler: ran })
}

const translate = { method: 'POST', path: '/api/translate' }

t.test('one info line lists what each quota protects, with its limit', async (t) => {
  const { lines } = await logOf(async (app) => {
    const quotas = { chat: { operations: [{ ...translate, method: 'post' }], tokensPerDay: 60 }, images: { mode: 'shadow', inFlight: 2 }, off: { perHour: 0 } } as const
    await app.register(quotaPlugin, { prefix: '/context', perMinute: 20, quotas })
    declareAll(app, '/context')
    app.post('/context/api/translate', ran)
    app.get('/v1/models/:model', { config: { quota: ['chat', 'images'] } }, ran)
    app.post('/v1/models/:model', { config: { quota: true } }, ran)
    app.post('/v1/other', { config: { quota: () => 'off' } }, ran)
  })
  const asDecided = 'POST /v1/other (as its function decides)'
  t.match(lines, [{
    level: 30,
    protections: [
      { quota: 'default', limit: 'per-minute', configured: 20, isEnforced: true, operations: [...protectedOperations.map(({ method, path }) => `${method} /context${path}`), 'POST /v1/models/:model', asDecided] },
      { quota: 'chat', limit: 'tokens-per-day', configured: 60, isEnforced: true, operations: ['POST /context/api/translate', 'GET /v1/models/:model', 'HEAD /v1/models/:model', asDecided] },
      { quota: 'images', limit: 'in-flight', configured: 2, isEnforced: false, operations: ['GET /v1/models/:model', 'HEAD /v1/models/:model', asDecided] },
      { quota: 'off', limit: 'per-hour', configured: 0, isEnforced: true, operations: [asDecided] }
    ],
    msg: /^the quota "default" \(per-minute 20\) protects POST \/context\/api\/analyze, .*; the quota "chat" \(tokens-per-day 60\) protects POST .*; the quota "images" \(in-flight 2\) observes GET .*; the quota "off" \(per-hour 0\) is disabled, and would protect POST/
  }])
  t.equal(lines.length, 1)
})

t.test('the info line tells where a shared store keeps the counters', async (t) => {
  for (const store of [Object.assign(new MemoryQuotaStore(), { keyPrefix: 'llm-quota:', shards: 4 }), new InsuredQuotaStore({ primary: Object.assign(new MemoryQuotaStore(), { keyPrefix: 'llm-quota:', shards: 4 }) })]) {
    const { lines } = await logOf(async (app) => {
      await app.register(quotaPlugin, { store })
      declareAll(app)
    })
    t.match(lines, [{ level: 30, keyPrefix: 'llm-quota:', shards: 4 }])
  }
})

t.test('one warning lists the operations that no route serves', async (t) => {
  const register = (options: object, declare: (app: FastifyInstance) => void = () => {}) => warningsOf(async (app) => {
    await app.register(quotaPlugin, options)
    declare(app)
  })

  t.test('the warning lists each operation of the option operations and of each named quota', async (t) => {
    const operations = [translate, { method: 'get', path: '/api/other' }, { method: 'POST', path: '/api/served' }]
    const warnings = await register({ operations, quotas: { chat: { operations: [{ method: 'POST', path: '/chat' }] } } }, (app) => { app.post('/api/served', ran) })
    t.match(warnings, [
      /^no route serves POST \/api\/translate, GET \/api\/other\. Check the options prefix and operations.* declared before the plugin cannot be checked$/,
      /^the quota "chat" protects nothing: no route serves POST \/chat\. .*must be wrapped with fastify-plugin.*encapsulation/
    ])
    t.equal(warnings.length, 2)
  })

  t.test('the warning lists the default operations only if none of them is served', async (t) => {
    t.match(await register({}), [/no route serves POST \/api\/analyze, POST \/api\/justify-leaf, GET \/api\/analyze-stream, GET \/api\/analyze-node\./])
    t.same(await register({}, (app) => { app.post('/api/justify-leaf', ran) }), [])
    t.match(await register({ operations: [] }), [/^the quota "default" protects nothing: no route is marked with its name\. /])
    const named = { operations: [], quotas: { chat: { operations: [translate] } } }
    t.same(await register(named, (app) => { app.post('/api/translate', ran) }), [], 'a host can use named quotas only')
    t.match(await register({ ...named, perMinute: 5 }, (app) => { app.post('/api/translate', ran) }), [/^the quota "default" protects nothing: /])
    t.same(await register({}, (app) => { app.post('/v1/:model', { config: { quota: true } }, ran) }), [], 'a host can mark its routes instead')
    t.match(await register({ quotas: { chat: { operations: [translate] } } }, (app) => { declareAll(app) }), [/no route serves POST \/api\/translate\. /])
    t.match(await register({ operations: protectedOperations }, (app) => { app.post('/api/analyze', ran) }), [/no route serves POST \/api\/justify-leaf, GET/])
  })

  t.test('the operations of a named quota do not count as default operations', async (t) => {
    const quotas = { chat: { operations: [translate] } }
    const withoutDefaults = await register({ quotas }, (app) => { app.post('/api/translate', ran) })
    t.match(withoutDefaults, [/no route serves POST \/api\/analyze, POST \/api\/justify-leaf, GET \/api\/analyze-stream, GET \/api\/analyze-node\./], 'only the operation of the named quota is served')
    t.match(await register({ quotas }, (app) => { app.post('/api/analyze', ran) }), [/no route serves POST \/api\/translate\. /], 'one of the default operations is served')
  })

  t.test('the log line of the warning contains the operations', async (t) => {
    const { lines } = await logOf(async (app) => { await app.register(quotaPlugin, { operations: [translate] }) })
    t.match(lines.filter(({ level }) => level === 40), [{ operations: [translate] }])
  })

  const mistakes: [string, object, (app: FastifyInstance) => void, RegExp][] = [
    ['a forgotten prefix', {}, (app) => { declareAll(app, '/context') }, /no route serves POST \/api\/analyze \(the route POST \/context\/api\/analyze has a different prefix\), POST/],
    ['a wrong prefix', { prefix: '/contxt' }, (app) => { declareAll(app, '/context') }, /no route serves POST \/contxt\/api\/analyze \(the route POST \/context\/api\/analyze has a different prefix\), POST/],
    ['an unneeded prefix', { prefix: '/context' }, (app) => { declareAll(app) }, /no route serves POST \/context\/api\/analyze \(the route POST \/api\/analyze has a different prefix\), POST/],
    ['a prefix within the path', { operations: [translate] }, (app) => { app.post('/translate', ran) }, /no route serves POST \/api\/translate \(the route POST \/translate has a different prefix\)\./],
    ['a parametric prefix', { operations: [translate] }, (app) => { app.post('/:tenant/api/translate', ran) }, /\(the route POST \/:tenant\/api\/translate has a different prefix\)\./],
    ['a wrong method', { operations: [translate] }, (app) => { app.get('/api/translate', ran) }, /no route serves POST \/api\/translate \(the path has a route with another method: GET, HEAD\)\./]
  ]
  for (const [mistake, options, declare, warning] of mistakes) {
    t.test(`the warning describes ${mistake} for routes that are declared after the plugin`, async (t) => {
      t.match(await register(options, declare), [warning])
    })
  }

  t.test('the warning describes an unneeded prefix and a wrong method for routes that are declared before the plugin', async (t) => {
    for (const [, options, declare, warning] of mistakes.filter(([mistake]) => ['an unneeded prefix', 'a wrong method'].includes(mistake))) {
      const warnings = await warningsOf(async (app) => {
        declare(app)
        await app.register(quotaPlugin, options)
      })
      t.match(warnings, [warning])
      t.equal(warnings.length, 1)
    }
  })

  t.test('the warning describes a wrong prefix in a scope that has a prefix, for routes that are declared before the plugin', async (t) => {
    const warnings = await warningsOf(async (app) => {
      await app.register(async (scope) => {
        scope.post('/api/translate', ran)
        await scope.register(quotaPlugin, { prefix: '/context', operations: [translate] })
      }, { prefix: '/v1' })
    })
    t.match(warnings, [/no route serves POST \/context\/api\/translate \(the route POST \/v1\/api\/translate has a different prefix\)\./])
  })

  t.test('the warning describes a scope whose root route is declared without the trailing slash', async (t) => {
    const warnings = await register({ operations: [{ method: 'POST', path: '/api/slashed/' }] }, (app) => {
      app.register(async (scope) => { scope.post('/', ran) }, { prefix: '/api/slashed' })
    })
    t.match(warnings, [/no route serves POST \/api\/slashed\//], 'Fastify reports the pattern /api/slashed for both paths')
  })

  t.test('the warning does not mention the root route for an operation that ends with a slash', async (t) => {
    const warnings = await register({ operations: [{ method: 'POST', path: '/api/slashed/' }] }, (app) => { app.post('/', ran) })
    t.match(warnings, [/no route serves POST \/api\/slashed\/\. Check/])
  })

  t.test('a route outside the scope of the plugin does not serve an operation', async (t) => {
    t.match(await warningsOf(async (app) => {
      await app.register(async (scope) => { await scope.register(quotaPlugin, { operations: [translate] }) })
      app.post('/api/translate', ran)
    }), [/no route serves POST \/api\/translate \(its route is outside the scope in which the plugin is registered\)\./])
  })

  t.test('an operation that a route serves causes no warning, whatever the pattern of the route is', async (t) => {
    for (const pattern of ['/api/translate', '/api/:operation', '/:a/:b', '/api/*', '*', '/api/:operation(^[a-z]+$)', '/api/:start-late']) {
      const expected = pattern === '/api/:start-late' ? 1 : 0
      t.equal((await register({ operations: [translate] }, (app) => { app.post(pattern, ran) })).length, expected, pattern)
    }
    t.same(await register({ operations: [translate] }, (app) => { app.post('/api/translate', { constraints: { host: 'one.example' } }, ran) }), [])
    t.same(await warningsOf(async (app) => {
      app.post('/api/translate', ran)
      await app.register(quotaPlugin, { operations: [translate] })
    }), [], 'the route is declared before the plugin')
    t.match(await warningsOf(async (app) => {
      app.post('/api/:operation', ran)
      await app.register(quotaPlugin, { operations: [translate] })
    }), [/no route serves POST \/api\/translate\. .*Marked routes and routes with parameters, wildcards or constraints that are declared before the plugin cannot be checked$/])
  })

  t.test('routes are matched with the prefix of their scope, and as the router of the host reads paths', async (t) => {
    t.same(await warningsOf(async (app) => {
      await app.register(async (scope) => {
        await scope.register(quotaPlugin)
        scope.post('/api/analyze', ran)
      }, { prefix: '/:tenant' })
    }), [])
    for (const [routerOptions, pattern] of [[{ caseSensitive: false }, '/API/Translate'], [{ ignoreTrailingSlash: true }, '/api/translate/'], [{ ignoreDuplicateSlashes: true }, '//api//translate']] as const) {
      for (const order of ['before', 'after']) {
        t.same(await warningsOf(async (app) => {
          if (order === 'before') app.post(pattern, ran)
          await app.register(quotaPlugin, { operations: [translate] })
          if (order === 'after') app.post(pattern, ran)
        }, { routerOptions }), [], `${pattern}, declared ${order} the plugin`)
      }
    }
  })
})

t.test('a warning describes each HEAD route that runs the handler of a protected GET operation', async (t) => {
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
  })).length, 1, 'one route serves two protected operations')
  t.same(await warningsOf(async (app) => {
    await app.register(quotaPlugin)
    app.get('/api/analyze-node', { config: { quota: true } }, ran)
  }), [], 'the HEAD route of a marked route is also subject to the quota')
})

t.test('the HEAD route of one of several routes that differ in their constraints causes a warning', async (t) => {
  t.match(await warningsOf(async (app) => {
    await app.register(quotaPlugin)
    app.get('/api/analyze-node', { exposeHeadRoute: false, constraints: { host: 'one.example' } }, async () => 'one')
    app.get('/api/analyze-node', { constraints: { host: 'two.example' } }, async () => 'two')
  }), [/^HEAD \/api\/analyze-node runs the handler of the protected GET/])
})

t.test('a HEAD route with its own handler causes no warning', async (t) => {
  t.same(await warningsOf(async (app) => {
    await app.register(quotaPlugin)
    app.head('/api/analyze-node', noop)
    app.get('/api/analyze-node', ran)
    app.route({ method: ['HEAD', 'POST'], url: '/api/analyze', handler: ran })
  }), [])
})

t.test('a warning describes each protected route with its own preHandler, which runs after the quota', async (t) => {
  const warnings = await warningsOf(async (app) => {
    app.addHook('preHandler', noop)
    await app.register(quotaPlugin)
    app.post('/api/analyze', { preHandler: noop }, ran)
    app.post('/api/justify-leaf', { preHandler: [noop, noop] }, ran)
    app.get('/api/analyze-node', { exposeHeadRoute: false, preHandler: [] }, ran)
    app.get('/api/analyze-stream', { exposeHeadRoute: false, onRequest: noop, preValidation: noop }, ran)
    app.get('/api/models/:model', { config: { quota: true }, preHandler: noop }, ran)
    app.post('/api/other', { preHandler: noop }, ran)
  })
  t.match(warnings, [/^POST \/api\/analyze is protected and has a preHandler of its own, which runs after the quota/, /^POST \/api\/justify-leaf is protected/, /^GET \/api\/models\/:model is protected/])
  t.equal(warnings.length, 3)
})

t.test('a preHandler of a marked route that is also a listed operation causes one warning', async (t) => {
  const warnings = await warningsOf(async (app) => {
    await app.register(quotaPlugin)
    app.post('/api/analyze', { config: { quota: true }, preHandler: noop }, ran)
  })
  t.match(warnings, [/^POST \/api\/analyze is protected/])
  t.equal(warnings.length, 1)
})

t.test('a preHandler that another plugin adds to a route causes a warning', async (t) => {
  t.match(await warningsOf(async (app) => {
    await app.register(quotaPlugin)
    app.addHook('onRoute', (route) => { route.preHandler = [noop] })
    app.post('/api/analyze', ran)
  }), [/^POST \/api\/analyze is protected/])
})

t.test('each warning contains its operation and only the hooks of its route, wherever the route is declared', async (t) => {
  async function first (): Promise<void> {}
  async function second (): Promise<void> {}
  const { lines } = await logOf(async (app) => {
    await app.register(quotaPlugin)
    app.get('/', ran)
    app.get('/api', ran)
    app.get('/api/:operation', { preHandler: first }, ran)
    app.get('/api/analyze', { preHandler: first }, ran)
    app.post('/api/analyze', { preHandler: [first, second] }, ran)
    app.route({ method: ['POST', 'PUT'], url: '/api/analyze/deeper/still', preHandler: second, handler: ran })
    app.post('/api/justify-leaf', { constraints: { host: 'one.example' }, preHandler: second }, ran)
    app.post('/api/justify-leaf', ran)
    app.get('/api/analyze-stream', { onRequest: noop, preHandler: [second, async () => {}], onSend: noop }, ran)
    app.get('/elsewhere/below', { preHandler: noop }, ran)
  })
  t.same(lines.filter(({ level }) => level === 40).map(({ operation, preHandlers, msg }) => [operation, preHandlers, /^[A-Z]+ \S+/.exec(String(msg))?.[0]]), [
    [{ method: 'POST', path: '/api/analyze' }, ['first()', 'second()'], 'POST /api/analyze'],
    [{ method: 'POST', path: '/api/justify-leaf' }, ['second()'], 'POST /api/justify-leaf'],
    [{ method: 'GET', path: '/api/analyze-stream' }, undefined, 'HEAD /api/analyze-stream'],
    [{ method: 'GET', path: '/api/analyze-stream' }, ['second()', 'anonymous()'], 'GET /api/analyze-stream'],
    [{ method: 'GET', path: '/api/:operation' }, undefined, 'HEAD /api/:operation'],
    [{ method: 'GET', path: '/api/:operation' }, ['first()'], 'GET /api/:operation']
  ])
})

t.test('a pattern that the router accepts only with allowUnsafeRegex serves an operation', async (t) => {
  t.match(await warningsOf(async (app) => {
    await app.register(quotaPlugin)
    app.get('/api/:operation(^(?:[a-z]+-?)*$)', ran)
  }, { routerOptions: { allowUnsafeRegex: true } }), [/^HEAD \/api\/:operation/])
})

t.test('an unusual pattern neither prevents start-up nor hides another route', async (t) => {
  const odd = ['/a b', '/a b/api', '/api/analyze (GET)', '/api/analyze (GET) x/y', '/one\ntwo', '/one\n:id(^\\d+$)', '/one\n::two', '/:id(^a\n:b(c)$)', '/:id(^(?:a\n:b(c|d))$)', '/(POST)', '/│   /x', '/api/analyze\u0000', '/a::b/:c(^[a-z]+$)']
  const warnings = await warningsOf(async (app) => {
    await app.register(quotaPlugin)
    app.get('/api/*', ran)
    for (const pattern of odd) {
      for (const path of [pattern, `${pattern}/api`, `${pattern}-more`]) app.get(path, { constraints: { host: `${odd.indexOf(pattern)}.example` } }, ran)
    }
    app.get('/:one/same', { constraints: { host: 'one.example' } }, ran)
    app.get('/:other/same', { constraints: { host: 'other.example' } }, ran)
    app.post('/api/analyze', { preHandler: noop }, ran)
  }, { exposeHeadRoutes: false })
  t.match(warnings, [/^POST \/api\/analyze is protected/])
  t.equal(warnings.length, 1)
})
