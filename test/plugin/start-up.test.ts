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
import { captureLog } from '../support/log.js'
import { matchExactly } from '../support/match-exactly.js'
import { asAlice } from '../support/server.js'

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
const slashed = [{ method: 'POST', path: '/api/slashed/' }]
const root = [{ method: 'POST', path: '/' }]
/** The warning that names operations without a route of their exact pattern. */
const unserved = (...listed: string[]): RegExp =>
  new RegExp(
    `^no route with the exact pattern is known for ${listed.join(', ')}, which .* This can be ` +
      'false: a parametric route, or one that is declared before the plugin, can serve it all ' +
      'the same\\. .* fastify-plugin'
  )

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
      post('/v1/other', model(() => 'off'))
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
    `the quota "images" (2 concurrent requests) observes ${both}`,
    `the quota "off" (0 requests per hour) is disabled, and would protect ${asDecided}`
  ])
})

t.test('the info line describes each kind of limit', async (t) => {
  const limits: [definition: QuotaDefinition, described: string][] = [
    [{ perWeek: { tokens: 60 } }, '60 tokens per week'],
    [{ limit: 5, window: 18_000_000 }, '5 requests per 18000 seconds'],
    [{ limit: -5, window: 1_500 }, '1 requests per 1.5 seconds'],
    [{ perMonth: { tokens: () => 5 } }, 'for each caller, in tokens per month'],
    [{ limit: () => 5, window: 5_000 }, 'for each caller, in requests per 5 seconds'],
    [{ concurrent: () => 5 }, 'for each caller, in concurrent requests']
  ]
  for (const [chat, described] of limits) {
    const options = { operations: [], quotas: { chat } }
    const after = post('/chat', { config: { quota: 'chat' } })
    const { log } = await start({ options, after })
    const [line] = log.lines
    t.equal(line?.msg, `the quota "chat" (${described}) protects POST /chat`)
  }
})

t.test('the info line names only routes that exist, and once what it cannot see', async (t) => {
  const limit = 'the quota "default" (10 requests per minute)'
  const unseen =
    'parametric routes that serve an operation, and marked routes that are declared before the ' +
    'plugin, are not listed'
  const none = 'protects no route declared after the plugin'
  const tools = { tools: { perDay: { tokens: 5 } }, jobs: { concurrent: 2 } }
  const hosts: Record<string, [host: Host, line: string]> = {
    'only a marked route': [{ after: post('/chat', marked) }, `${limit} protects POST /chat`],
    'one of the default operations': [
      { after: post('/api/analyze') },
      `${limit} protects POST /api/analyze`
    ],
    'a marked route that is an operation, once': [
      { after: post('/api/analyze', marked) },
      `${limit} protects POST /api/analyze`
    ],
    'the pattern as it is declared': [
      { server: { routerOptions: { caseSensitive: false } }, after: post('/API/Analyze') },
      `${limit} protects POST /API/Analyze`
    ],
    'no default operation': [{}, `${limit} ${none}; ${unseen}`],
    'no operation of the own list': [
      { options: { operations } },
      `${limit} ${none}; ${unseen}`
    ],
    'quotas that only quotaAcquire uses': [
      { options: { operations: [], quotas: tools } },
      `the quota "tools" (5 tokens per day) ${none}; ` +
        `the quota "jobs" (2 concurrent requests) ${none}; ${unseen}`
    ]
  }
  for (const [what, [host, msg]] of Object.entries(hosts)) {
    const { log } = await start(host)
    const infos = log.lines.filter(({ level }) => level === 30)
    matchExactly(t, infos, [{ msg }], what)
  }
})

t.test('the info line lists a route with each of its methods', async (t) => {
  const { log } = await start({
    after: (app) =>
      app.route({ method: ['PUT', 'POST'], url: '/chat', ...marked, handler: ran })
  })
  matchExactly(t, log.lines, [{ msg: /protects PUT \/chat, POST \/chat$/ }])
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

t.test('fastify.quotas has the default quota, first, if anything can use it', async (t) => {
  const chat = { chat: { perMinute: 5 } }
  const marked = { config: { quota: ['chat', 'default'] } }
  const chosen = { config: { quota: () => 'default' } }
  const hosts: [host: Host, names: readonly string[]][] = [
    [{}, ['default']],
    [{ options: { operations: [] } }, ['default']],
    [{ options: { quotas: chat } }, ['default', 'chat']],
    [{ options: { quotas: chat, operations: [] } }, ['chat']],
    [{ options: { quotas: chat, operations: [], perMinute: 5 } }, ['default', 'chat']],
    [{ options: { quotas: chat, operations: [] }, after: post('/', marked) }, ['default', 'chat']],
    [{ options: { quotas: chat, operations: [] }, after: post('/', chosen) }, ['default', 'chat']]
  ]
  for (const [host, names] of hosts) {
    const { app } = await start(host)
    t.same(app.quotas.map(({ name }) => name), names)
  }
})

t.test('fastify.quotas has the default quota once a route declared before uses it', async (t) => {
  const options = { operations: [], quotas: { chat: { perMinute: 5 } }, authentication: asAlice }
  const { app } = await start({ options, before: post('/chat', marked) })
  t.equal((await app.inject({ method: 'POST', url: '/chat' })).statusCode, 200)
  await app.inject({ method: 'POST', url: '/chat' })
  t.same(app.quotas.map(({ name }) => name), ['default', 'chat'])
})

t.test('the info line tells where a shared store keeps the counters', async (t) => {
  const redis = new RedisQuotaStore({ client: new Redis({ lazyConnect: true }) })
  const postgres = new PostgresQuotaStore({
    pool: { query: async () => ({ rows: [] }) },
    table: 'limits.chat'
  })
  for (const [primary, place] of [
    [redis, { keyPrefix: 'llm-quota:' }],
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
  "each operation of the host's own list without a route of its exact pattern": [
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
    unserved('POST /api/translate', 'GET /api/other'),
    unserved('POST /chat')
  ],
  'each default operation that the host lists itself': [
    { options: { operations: protectedOperations }, after: post('/api/analyze') },
    unserved('POST /api/justify-leaf', 'GET /api/analyze-stream', 'GET /api/analyze-node')
  ],
  'an operation of a marked quota, too': [
    { options: { operations }, after: post('/v1/:model', marked) },
    unserved('POST /api/translate')
  ],
  'an operation with the prefix': [
    { options: { prefix: '/context', operations }, after: post('/api/translate') },
    /^the quota "default" protects no route that was found; .* POST \/context\/api\/translate\. /,
    unserved('POST /context/api/translate')
  ],
  'an operation whose path has a route with another method': [
    { options: { operations }, after: get('/api/translate') },
    unserved('POST /api/translate')
  ],
  'an operation whose route is outside the scope of the plugin': [
    {
      options: false,
      after: async (app) => {
        await within('', plugin({ operations }))(app)
        post('/api/translate')(app)
      }
    },
    unserved('POST /api/translate')
  ],

  'no operation / that the prefix itself serves': [
    { options: { prefix: '/context', operations: root }, after: post('/context') }
  ],

  'no operation / of a scope whose prefix has a parameter': [
    { options: false, after: within('/:tenant', plugin({ operations: root }), post('/')) }
  ],
  'an operation with a slash at its end, which the router tells from one without': [
    { options: { operations: slashed }, after: post('/api/slashed') },
    unserved('POST /api/slashed/')
  ],
  'no default operation without a route': [{ after: post('/api/analyze') }],
  'a default quota that no known route uses, with the paths': [
    {},
    /^the quota "default" protects no route that was found; .* POST \/api\/analyze, POST /
  ],
  'a wrong prefix, with the paths that were looked for': [
    { options: { prefix: '/contxt' }, after: declareAll('/context') },
    /^the quota "default" protects no route that was found; .* POST \/contxt\/api\/analyze, /
  ],

  'no default quota beside named ones, and none that a mark names': [
    { options: { quotas: { tools: { perDay: 5 } } } }
  ],
  'no prefix where a mark is seen': [
    { options: { prefix: '/contxt' }, after: post('/chat', marked) }
  ],
  'no default quota that only quotaAcquire uses': [{ options: { operations: [] } }],
  'no quota that only quotaAcquire uses': [
    {
      options: {
        operations: [],
        quotas: { tools: { perDay: { tokens: 5 } }, jobs: { concurrent: 2 } }
      }
    }
  ],
  'no route before the plugin beside one after it with the same pattern, which is in its scope': [
    {
      options: false,
      before: get('/api/analyze-node', noHead),
      after: within(
        '',
        plugin({ operations: [node] }),
        get('/api/analyze-node', forHost('two.example'))
      )
    }
  ],
  'no route before the plugin in a scope with a prefix of its own': [
    { options: false, after: within('/v1', post('/api/translate'), plugin({ operations })) }
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
  'no HEAD route with its own handler': [
    {
      after: all(
        get('/api/analyze-node', noHead),
        (app) => app.head('/api/analyze-node', noop),
        (app) => app.route({ method: ['HEAD', 'POST'], url: '/api/analyze', handler: ran })
      )
    }
  ],

  'the HEAD route of a GET route whose handler another plugin wraps': [
    { before: wrapHandlers, after: get('/api/analyze-node') },
    /^HEAD \/api\/analyze-node .* runs the handler of the protected GET, unless it has its own;/
  ],
  'a HEAD route that is declared together with its GET route': [
    {
      server: { exposeHeadRoutes: false },
      after: (app) => app.route({ method: ['GET', 'HEAD'], url: '/api/analyze-node', handler: ran })
    },
    /^HEAD \/api\/analyze-node .* runs the handler of the protected GET, unless it has its own;/
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
  'no preHandler of a route whose mark names no quota, or is inherited, which requests do not see':
    [
      {
        after: all(
          post('/api/analyze'),
          post('/none', { config: { quota: null }, preHandler: noop }),
          post('/empty', { config: { quota: [] }, preHandler: noop }),
          post('/inherited', { config: Object.create({ quota: true }), preHandler: noop })
        )
      }
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
  ]
}
for (const pattern of ['/api/:operation', '/api/*']) {
  cases[`an operation that ${pattern} serves, and that this can be false`] = [
    { options: { operations }, after: post(pattern) },
    unserved('POST /api/translate')
  ]
}
const asRead = [
  [{ caseSensitive: false }, '/API/Translate'],
  [{ ignoreTrailingSlash: true }, '/api/translate/'],
  [{ ignoreDuplicateSlashes: true }, '//api//translate'],
  [{}, '/api/translate']
] as const
for (const order of ['before', 'after']) {
  for (const [routerOptions, pattern] of asRead) {
    cases[`no operation whose pattern the router reads as ${pattern}, ${order} the plugin`] = [
      { options: { operations }, server: { routerOptions }, [order]: post(pattern) }
    ]
  }
  cases[`the HEAD route of a protected GET operation, ${order} the plugin`] = [
    {
      [order]: all(get('/api/analyze-node'), get('/api/analyze-stream', noHead), get('/api/other'))
    },
    /^HEAD \/api\/analyze-node .*, unless it has its own; declare .* exposeHeadRoute: false/
  ]
}

for (const [what, [host, ...warnings]] of Object.entries(cases)) {
  t.test(`the warnings name ${what}`, async (t) => {
    const { log } = await start(host)
    matchExactly(t, log.problems().map(({ msg }) => msg), warnings)
  })
}

t.test('a warning has the operations that it names, and the hooks', async (t) => {
  const { log } = await start({
    options: { operations: [translate, node] },
    after: get('/api/analyze-node', { preHandler: [noop, async () => {}] })
  })
  matchExactly(t, log.problems(), [
    { level: 40, quota: 'default', operations: [translate] },
    { level: 40, operation: node },
    { level: 40, operation: node, preHandlers: ['noop()', 'anonymous()'] }
  ])
})

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
