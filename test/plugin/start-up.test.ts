// The log when the server is ready: what is protected, and warnings about probable mistakes.
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import quotaPlugin, {
  InsuredQuotaStore,
  protectedOperations,
  type QuotaDefinition,
  type QuotaOptions,
  type RouteMark
} from '../../lib/index.js'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { matchExactly } from '../support/match-exactly.js'
import { captureLog } from '../support/service.js'

type Declare = (app: FastifyInstance) => unknown

/**
 * What a host declares before and after it registers the plugin, or, with the options `false`,
 * registers it itself.
 */
interface Host {
  options?: QuotaOptions | false
  server?: FastifyServerOptions
  before?: Declare
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
const post =
  (pattern: string, options = {}): Declare =>
    (app) =>
      app.post(pattern, options, ran)
const get =
  (pattern: string, options = {}): Declare =>
    (app) =>
      app.get(pattern, options, async () => 'ran')
const all =
  (...declarations: Declare[]): Declare =>
    (app) => {
      for (const declare of declarations) declare(app)
    }
/** Declares the four default operations. */
const declareAll = (prefix = ''): Declare =>
  all(
    ...protectedOperations.map(
      ({ method, path }): Declare =>
        (app) =>
          app.route({ method, url: prefix + path, ...noHead, handler: ran })
    )
  )
/** Declares within a scope that has a prefix. */
const within =
  (prefix: string, ...declarations: Declare[]): Declare =>
    (app) =>
      app.register(
        async (scope) => {
          for (const declare of declarations) await declare(scope)
        },
        { prefix }
      )
const plugin =
  (options: QuotaOptions): Declare =>
    (app) =>
      app.register(quotaPlugin, options)

/** As plugins for tracing and for sockets do. */
const wrapHandlers: Declare = (app) =>
  app.addHook('onRoute', (route) => {
    const { handler } = route
    route.handler = function wrapped (...given) {
      return handler.apply(this, given)
    }
  })

const node = { method: 'GET', path: '/api/analyze-node' }
const translate = { method: 'POST', path: '/api/translate' }
const operations = [translate]
const forHost = (host: string): object => ({ ...noHead, constraints: { host } })
const differs = (path: string, served: string) =>
  new RegExp(`serves POST ${path} \\(the route POST ${served} has a different prefix\\)`)
const slashed = [{ method: 'POST', path: '/api/slashed/' }]

t.test('one info line lists what each quota protects, with its limit', async (t) => {
  const quotas = {
    chat: { operations: [{ ...translate, method: 'post' }], perDay: { tokens: 60 }, unreported: 5 },
    images: { mode: 'shadow', concurrent: 2 },
    off: { perHour: 0 }
  } as const
  const model = (quota: RouteMark) => ({ config: { quota } })
  const {
    log: { lines }
  } = await start({
    options: { prefix: '/context', perMinute: 20, quotas },
    after: all(
      declareAll('/context'),
      post('/context/api/translate'),
      get('/v1/models/:model', model(['chat', 'images'])),
      post('/v1/models/:model', model(true)),
      post(
        '/v1/other',
        model(() => 'off')
      )
    )
  })
  const asDecided = 'POST /v1/other (as its function decides)'
  const both = `GET /v1/models/:model, HEAD /v1/models/:model, ${asDecided}`
  const listed = protectedOperations
    .map(({ method, path }) => `${method} /context${path}`)
    .join(', ')
  t.equal(lines.length, 1)
  matchExactly(t, lines, [{ level: 30 }])
  t.same(String(lines[0]?.msg).split('; '), [
    `the quota "default" (20 requests per minute) protects ${listed}, POST ` +
      `/v1/models/:model, ${asDecided}`,
    `the quota "chat" (60 tokens per day) protects POST /context/api/translate, ${both}`,
    `the quota "images" (2 concurrent-requests) observes ${both}`,
    `the quota "off" (0 requests per hour) is disabled, and would protect ${asDecided}`
  ])
})

t.test('a quota that only quotaAcquire uses is listed as one for it', async (t) => {
  const { app, log } = await start({
    options: { operations: [], quotas: { tools: { perDay: { tokens: 5 } }, jobs: { concurrent: 2 } } }
  })
  const unseen =
    'marked routes are listed only if they are declared after the plugin, and in its scope'
  matchExactly(t, log.lines, [
    {
      level: 30,
      msg:
        `the quota "tools" (5 tokens per day) is for fastify.quotaAcquire (${unseen}); ` +
        `the quota "jobs" (2 concurrent-requests) is for fastify.quotaAcquire (${unseen})`
    }
  ])
  matchExactly(t, app.quotas, [
    { name: 'tools', unit: 'tokens', period: 'day', counters: 'tools.tokens.day' },
    { name: 'jobs', unit: 'concurrent-requests', period: null, counters: 'jobs.concurrent' }
  ])
})

t.test('a quota of a route with neither cost nor unreported is warned of', async (t) => {
  const chat = { perDay: { tokens: 5 } }
  const used = post('/chat', { config: { quota: 'chat' } })
  const chosen = post('/chat', { config: { quota: () => 'chat' } })
  const definitions: [definition: QuotaDefinition, declare: Declare, warnings: number][] = [
    [chat, used, 1],
    [{ ...chat, operations: [{ method: 'POST', path: '/chat' }] }, post('/chat'), 1],
    [chat, noop, 0],
    [chat, chosen, 0],
    [{ ...chat, cost: { least: 0, most: 5 } }, used, 0],
    [{ ...chat, unreported: 5 }, used, 0],
    [{ perDay: 5 }, used, 0]
  ]
  for (const [definition, declare, warnings] of definitions) {
    const options = { operations: [], quotas: { chat: definition } }
    const { log } = await start({ options, after: declare })
    matchExactly(
      t,
      log.problems(),
      Array(warnings).fill({
        quota: 'chat',
        unit: 'tokens',
        msg: /has neither cost nor unreported/
      })
    )
  }
})

t.test('fastify.quotas has the default quota if anything can use it', async (t) => {
  const chat = { chat: { perMinute: 5 } }
  const marked = { config: { quota: ['chat', 'default'] } }
  const hosts: [host: Host, names: readonly string[]][] = [
    [{}, ['default']],
    [{ options: { operations: [] } }, ['default']],
    [{ options: { quotas: chat } }, ['default', 'chat']],
    [{ options: { quotas: chat, operations: [] } }, ['chat']],
    [{ options: { quotas: chat, operations: [], perMinute: 5 } }, ['default', 'chat']],
    [{ options: { quotas: chat, operations: [] }, after: post('/', marked) }, ['default', 'chat']]
  ]
  for (const [host, names] of hosts) {
    const { app } = await start(host)
    t.same(
      app.quotas.map(({ name }) => name),
      names
    )
  }
})

t.test('the info line tells where a shared store keeps the counters', async (t) => {
  const redis = new RedisQuotaStore({ client: new Redis({ lazyConnect: true }), shards: 4 })
  const postgres = new PostgresQuotaStore({
    pool: { query: async () => ({ rows: [] }) },
    table: 'limits.chat'
  })
  for (const [primary, place] of [
    [redis, { keyPrefix: 'llm-quota:', shards: 4 }],
    [postgres, { table: 'limits.chat' }]
  ] as const) {
    for (const store of [primary, new InsuredQuotaStore({ primary })]) {
      const { log } = await start({ options: { store }, after: declareAll() })
      matchExactly(t, log.lines, [{ level: 30, ...place }])
    }
  }
})

// Each host with all of its warnings.
const cases: Record<string, [host: Host, ...warnings: RegExp[]]> = {
  "operations of the host's own list, and a quota that protects nothing": [
    {
      options: {
        operations: [
          translate,
          { method: 'get', path: '/api/other' },
          { method: 'POST', path: '/api/served' }
        ],
        quotas: { chat: { operations: [{ method: 'POST', path: '/chat' }] } }
      },
      after: post('/api/served')
    },
    /^no route serves POST \/api\/translate, GET \/api\/other\. Check .* cannot be checked$/,
    /^the quota "chat" protects nothing: no route serves POST \/chat\. .*fastify-plugin/
  ],
  'the default operations if none is served': [
    {},
    /no route serves POST \/api\/analyze, POST .*-leaf, GET .*-stream, GET \/api\/analyze-node\./
  ],
  'each default operation that the host lists itself': [
    { options: { operations: protectedOperations }, after: post('/api/analyze') },
    /no route serves POST \/api\/justify-leaf, GET/
  ],
  'a quota without operations and marked routes': [
    { options: { operations: [] } },
    /^the quota "default" protects nothing: no route .* after the plugin is marked with its name\. /
  ],
  'the default operations if a mark names no quota, or is inherited, which requests do not see': [
    {
      after: all(
        post('/none', { config: { quota: null }, preHandler: async () => {} }),
        post('/empty', { config: { quota: [] }, preHandler: async () => {} }),
        post('/inherited', { config: Object.create({ quota: true }), preHandler: async () => {} })
      )
    },
    /no route serves POST \/api\/analyze, POST .*-leaf, GET .*-stream, GET \/api\/analyze-node\./
  ],
  'no default operations if the host marks its routes instead': [
    { after: post('/v1/:model', marked) }
  ],
  'a forgotten prefix': [
    { after: declareAll('/context') },
    differs('/api/analyze', '/context/api/analyze')
  ],
  'a wrong prefix': [
    { options: { prefix: '/contxt' }, after: declareAll('/context') },
    differs('/contxt/api/analyze', '/context/api/analyze')
  ],
  'a prefix within the path': [
    { options: { operations }, after: post('/translate') },
    differs('/api/translate', '/translate')
  ],
  'a wrong prefix in a scope that has a prefix, before the plugin': [
    {
      options: false,
      after: within('/v1', post('/api/translate'), plugin({ prefix: '/context', operations }))
    },
    differs('/context/api/translate', '/v1/api/translate')
  ],
  'no root route for an operation that ends with a slash': [
    { options: { operations: slashed }, after: post('/') },
    /no route serves POST \/api\/slashed\/\. Check/
  ],
  'no operation that ends with a slash and is served by the root route of a scope': [
    { options: { operations: slashed }, after: within('/api/slashed', post('/')) }
  ],
  'no operation / that the prefix itself serves': [
    {
      options: { prefix: '/context', operations: [{ method: 'POST', path: '/' }] },
      after: post('/context')
    }
  ],
  'a route outside the scope of the plugin': [
    {
      options: false,
      after: async (app) => {
        await within('', plugin({}))(app)
        post('/api/analyze')(app)
      }
    },
    /"default" protects nothing: .* POST \/api\/analyze \(its route is outside the scope .*\)/
  ],
  'a route before the plugin that can be outside the scope of the plugin': [
    {
      options: false,
      before: post('/api/translate'),
      after: within('', plugin({ operations: [translate, node] }), get('/api/analyze-node', noHead))
    },
    /^the quota "default" protects POST \/api\/translate only if the route is in the scope/
  ],
  'no route before the plugin in a scope with a prefix of its own': [
    { options: false, after: within('/v1', post('/api/translate'), plugin({ operations })) }
  ],
  'that a parametric route before the plugin cannot be checked': [
    { options: { operations }, before: post('/api/:operation') },
    /no route serves POST \/api\/translate\. .*Marked routes and .* cannot be checked$/
  ],
  'no pattern that the router treats as equal to another': [
    {
      after: all(
        get('/:one/same', forHost('one.example')),
        get('/:other/same', forHost('other.example')),
        post('/api/analyze')
      )
    }
  ],
  'the one HEAD route of two protected operations': [
    { options: { prefix: '/context' }, after: get('/context/api/:operation') },
    /^HEAD/
  ],
  'no HEAD route of a marked route, which is also subject': [
    { after: get('/api/analyze-node', marked) }
  ],
  'the HEAD route of one of several routes that differ in their constraints': [
    {
      after: all(
        get('/api/analyze-node', forHost('one.example')),
        get('/api/analyze-node', { constraints: { host: 'two.example' } })
      )
    },
    /^HEAD \/api\/analyze-node is not subject to the quota/
  ],
  'no operation that two routes serve whose patterns differ in the names of their parameters': [
    {
      options: { operations },
      after: all(post('/api/:one', forHost('one.example')), post('/api/:other'))
    }
  ],
  'no operation that routes below a prefix with a parameter serve': [
    {
      options: { prefix: '/:tenant', operations: [...operations, ...protectedOperations] },
      after: all(within('/acme', post('/api/translate'), get('/api/:one', noHead)), post('*'))
    }
  ],
  'no operation that a route below a prefix with a regular expression serves': [
    {
      options: false,
      after: within('/:tenant([^/]+)', plugin({ operations }), post('/api/translate'))
    }
  ],
  'an operation that no route below a prefix with a parameter serves': [
    {
      options: { prefix: '/:tenant', operations },
      after: within('/acme', post('/other/translate'))
    },
    /no route serves POST \/:tenant/
  ],
  'no operation below a prefix with a parameter, of literal routes before the plugin': [
    {
      options: { prefix: '/:tenant', operations },
      before: all(post('/acme/api/translate'), post('/b/api/translate'))
    }
  ],
  'an operation whose path has a route with another method': [
    { options: { operations }, after: all(get('/api/translate'), post('/other/api/translate')) },
    /no route serves POST \/api\/translate \(the route GET .* has a different method\)\./
  ],
  'an operation whose path has a route with another method before the plugin': [
    { options: { operations }, before: get('/api/translate') },
    /no route serves POST \/api\/translate \(the route GET .* has a different method\)\./
  ],
  'the route that the router prefers, and no other that matches': [
    {
      options: { operations: [{ method: 'GET', path: '/api/chat.json' }] },
      after: all(
        get('*'),
        get('/api/*'),
        get('/:a/chat.json'),
        get('/api/:name', noHead),
        get('/api/:name.json'),
        get('/api/:name(^[a-c/]+$)')
      )
    },
    /^HEAD \/api\/:name\.json is not subject/,
    /^HEAD \/api\/:name\(\^\[a-c\/\]\+\$\) is not subject/
  ],
  'no operation that an optional parameter serves': [
    { options: { operations }, after: post('/api/translate/:language?') }
  ],
  'no quota that only quotaAcquire uses': [
    {
      options: {
        operations: [],
        quotas: { tools: { perDay: { tokens: 5 } }, jobs: { concurrent: 2 } }
      }
    }
  ],
  'no HEAD route with its own handler': [
    {
      after: all(
        (app) => app.head('/api/analyze-node', noop),
        get('/api/analyze-node'),
        (app) => app.route({ method: ['HEAD', 'POST'], url: '/api/analyze', handler: ran })
      )
    }
  ],
  'no HEAD route with its own handler that Fastify does not declare': [
    {
      server: { exposeHeadRoutes: false },
      after: all(get('/api/analyze-node'), (app) => app.head('/api/analyze-node', noop))
    }
  ],
  'no HEAD route with its own handler after a GET route before the plugin': [
    {
      before: get('/api/analyze-node', noHead),
      after: (app) => app.head('/api/analyze-node', noop)
    }
  ],
  'no HEAD route with its own handler for another host': [
    {
      after: all(
        (app) => app.head('/api/analyze-node', { constraints: { host: 'one.example' } }, noop),
        get('/api/analyze-node', { constraints: { host: 'one.example' } }),
        (app) => app.head('/api/analyze-node', { constraints: { host: 'two.example' } }, noop)
      )
    }
  ],
  'the HEAD route of a GET route whose handler another plugin wraps': [
    { before: wrapHandlers, after: get('/api/analyze-node') },
    /^HEAD \/api\/analyze-node is not subject to the quota and runs the handler/
  ],
  'a HEAD route that is declared together with its GET route': [
    {
      after: (app) => app.route({ method: ['GET', 'HEAD'], url: '/api/analyze-node', handler: ran })
    },
    /^HEAD \/api\/analyze-node is not subject to the quota and runs the handler/
  ],
  'no HEAD route that is itself an operation or marked': [
    {
      options: {
        operations: [node, { ...node, method: 'head' }],
        quotas: { chat: { perMinute: 5 } }
      },
      before: (app) => {
        app.addHook('onRoute', ({ method, config }) => {
          if (method === 'HEAD') Object.assign(config ?? {}, { quota: 'chat' })
        })
      },
      after: all(get('/api/analyze-node'), get('/other', { config: { quota: 'chat' } }))
    }
  ],
  'a HEAD route that is subject to another quota only': [
    {
      options: {
        operations: [node],
        quotas: { chat: { perMinute: 5, operations: [{ ...node, method: 'HEAD' }] } }
      },
      after: get('/api/analyze-node')
    },
    /^HEAD \/api\/analyze-node is not subject to the quota/
  ],
  'the HEAD route of an operation of two quotas, before the plugin, once': [
    {
      options: { operations: [node], quotas: { chat: { perMinute: 5, operations: [node] } } },
      before: get('/api/analyze-node')
    },
    /^HEAD \/api\/analyze-node is not subject to the quota/
  ],
  'each protected route with its own preHandler, which runs after the quota': [
    {
      before: (app) => app.addHook('preHandler', noop),
      after: all(
        post('/api/analyze', { preHandler: noop }),
        post('/api/justify-leaf', { preHandler: [noop, noop] }),
        get('/api/analyze-node', { ...noHead, preHandler: [] }),
        get('/api/analyze-stream', { ...noHead, onRequest: noop, preValidation: noop }),
        get('/api/models/:model', { ...marked, preHandler: noop }),
        post('/api/other', { preHandler: noop })
      )
    },
    /^POST \/api\/analyze is protected and has a preHandler of its own, which runs after the quota/,
    /^POST \/api\/justify-leaf is protected/,
    /^GET \/api\/models\/:model is protected/
  ],
  'the preHandler of a marked route that is also a listed operation, once': [
    { after: post('/api/analyze', { ...marked, preHandler: noop }) },
    /^POST \/api\/analyze is protected/
  ],
  'a preHandler that another plugin adds to a route': [
    {
      after: all(
        (app) =>
          app.addHook('onRoute', (route) => {
            route.preHandler = [async () => {}]
          }),
        post('/api/analyze')
      )
    },
    /^POST \/api\/analyze is protected/
  ],
  'the HEAD route of a pattern that the router accepts only with allowUnsafeRegex': [
    {
      server: { routerOptions: { allowUnsafeRegex: true } },
      after: get('/api/:operation(^(?:[a-z]+-?)*$)')
    },
    /^HEAD \/api\/:operation/
  ]
}
for (const pattern of [
  '/api/translate',
  '/api/:operation',
  '/:a/:b',
  '/api/*',
  '*',
  '/api/:operation(^[a-z]+$)'
]) {
  cases[`no operation that ${pattern} serves`] = [{ options: { operations }, after: post(pattern) }]
}
const asRead = [
  [{ caseSensitive: false }, '/API/Translate'],
  [{ ignoreTrailingSlash: true }, '/api/translate/'],
  [{ ignoreDuplicateSlashes: true }, '//api//translate']
] as const
for (const order of ['before', 'after']) {
  for (const [routerOptions, pattern] of asRead) {
    cases[`no operation that ${pattern} serves as the router reads paths, ${order} the plugin`] = [
      { options: { operations }, server: { routerOptions }, [order]: post(pattern) }
    ]
  }
  cases[`the HEAD route of a protected GET operation, ${order} the plugin`] = [
    {
      [order]: all(get('/api/analyze-node'), get('/api/analyze-stream', noHead), get('/api/other'))
    },
    // Whether the HEAD route has a handler of its own is not known before.
    order === 'before'
      ? /^HEAD \/api\/analyze-node .* of the protected GET, unless it has its own; declare/
      : /^HEAD \/api\/analyze-node .* of the protected GET; declare .* exposeHeadRoute: false/
  ]
}

for (const [what, [host, ...warnings]] of Object.entries(cases)) {
  t.test(`the warnings name ${what}`, async (t) => {
    const { log } = await start(host)
    matchExactly(
      t,
      log.problems().map(({ msg }) => msg),
      warnings
    )
    t.ok(
      log.lines
        .filter(({ level }) => level === 40)
        .every(
          ({ operation, operations, preHandlers = ['noop()'] }) =>
            (Array.isArray(operations) || operation !== undefined) &&
            /^(noop|anonymous)\(\)/.test(String(preHandlers))
        )
    )
  })
}

t.test(
  'the operation / of a scope with a prefix is counted, and no warning says that no route ' +
    'serves it',
  async (t) => {
    for (const prefix of ['/context', '/:tenant']) {
      const operations = [{ method: 'POST', path: '/' }]
      const { log, app } = await start({
        options: false,
        after: within(prefix, plugin({ operations }), post('/'))
      })
      for (const url of ['/context', '/context/']) {
        t.equal((await app.inject({ method: 'POST', url })).statusCode, 401, prefix)
      }
      t.same(log.warnings(), [], prefix)
    }
  }
)

t.test(
  'the HEAD twin of a route that a hook marks is subject to the quota, or a warning names it',
  async (t) => {
    for (const order of ['before', 'after'] as const) {
      for (const marksBoth of [false, true]) {
        const mark: Declare = (app) =>
          app.addHook('onRoute', (route) => {
            if (marksBoth || route.method === 'GET') route.config = { ...route.config, quota: true }
          })
        const declare = get('/v1/models/:model')
        const { log, app } = await start({
          options: { operations: [] },
          ...(order === 'before' ? { before: mark, after: declare } : { after: all(mark, declare) })
        })
        const [ofGet, ofHead] = [
          await app.inject('/v1/models/a'),
          await app.inject({ method: 'HEAD', url: '/v1/models/a' })
        ]
        const isWarned = log
          .warnings()
          .some((warning) =>
            warning.startsWith('HEAD /v1/models/:model is not subject to the quota')
          )
        t.same([ofGet.statusCode, ofHead.statusCode === 401], [401, !isWarned])
      }
    }
  }
)
