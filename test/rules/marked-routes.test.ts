// docs/rules.md, "Subject": routes that are marked with a quota.
import Fastify, { type FastifyInstance, type HTTPMethods, type RouteHandlerMethod } from 'fastify'
import t from 'tap'
import quotaPlugin, { type QuotaOptions, type RouteMark } from '../../lib/index.js'
import { captureLog } from '../support/log.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { asAlice, createServer } from '../support/server.js'
import { virtualPerformance } from '../support/time.js'

const ran = async () => 'ran'
const marked = { config: { quota: true } }

const model = 'default POST /v1/models/:model'

/**
 * The routes of a service, and requests: method and URL, status, and the quotas and operations of
 * the decisions, or none.
 */
const cases: [
  rule: string,
  options: QuotaOptions,
  routes: [method: HTTPMethods, url: string, quota?: RouteMark][],
  requests: [string, status: number, decisions: string][]
][] = [
  [
    'with any parameters, and the operation is its method and pattern',
    { perMinute: 3 },
    [['POST', '/v1/models/:model'], ['POST', '/api/:operation']],
    [
      ['POST /api/analyze', 200, 'default POST /api/:operation'],
      ['POST /v1/models/a', 200, model],
      ['POST /v1/models/b?x', 200, model],
      ['POST /v1/models/%63', 429, model],
      ['POST /v1/other', 404, 'none']
    ]
  ],
  [
    'its HEAD route as well',
    {},
    [['GET', '/stream']],
    [
      ['HEAD /stream', 200, 'default HEAD /stream'],
      ['GET /stream', 200, 'default GET /stream'],
      ['HEAD /stream', 429, 'default HEAD /stream']
    ]
  ],
  [
    'with each of its methods',
    {},
    [['PUT', '/both'], ['POST', '/both']],
    [
      ['PUT /both', 200, 'default PUT /both'],
      ['POST /both', 200, 'default POST /both'],
      ['PUT /both', 429, 'default PUT /both']
    ]
  ],
  [
    'as its pattern with the prefix',
    { prefix: '/context', perMinute: 9 },
    [['POST', '/context'], ['POST', '/context/v1/:model'], ['POST', '/contexts/v1']],
    [
      ['POST /context', 200, 'default POST /context'],
      ['POST /context/v1/a', 200, 'default POST /context/v1/:model'],
      ['POST /contexts/v1', 200, 'default POST /contexts/v1']
    ]
  ],
  [
    'beside the quota that lists an operation it could be reached as',
    { quotas: { chat: {} } },
    [['POST', '/api/:operation', 'chat']],
    [
      ['POST /api/analyze', 200, 'default POST /api/analyze, chat POST /api/:operation'],
      ['POST /api/other', 200, 'chat POST /api/:operation']
    ]
  ],
  [
    'once, if its quota also lists its operation',
    { perMinute: 1 },
    [['POST', '/api/analyze']],
    [
      ['POST /api/analyze', 200, 'default POST /api/analyze'],
      ['POST /api/analyze', 429, 'default POST /api/analyze']
    ]
  ]
]

for (const [rule, options, routes, requests] of cases) {
  t.test(`a marked route is subject to the quota: ${rule}`, async (t) => {
    const app = Fastify()
    await app.register(quotaPlugin, { authentication: asAlice, perMinute: 2, ...options })
    app.addHook('onSend', async (request, reply) => {
      reply.header(
        'x-quota',
        request.quota.decisions
          .map(({ quota, operation }) => `${quota} ${operation?.method} ${operation?.path}`)
          .join(', ') || 'none'
      )
    })
    for (const [method, url, quota = true] of routes) {
      app.route({ method, url, config: { quota }, handler: ran })
    }
    for (const [request, status, decisions] of requests) {
      const [method, url = ''] = request.split(' ')
      const { statusCode, headers } = await app.inject({ method: method as 'GET', url })
      t.same([statusCode, headers['x-quota']], [status, decisions], request)
    }
  })
}

const quotas = { chat: {}, images: {} }
const none: readonly string[] = []

t.test(
  'a mark is true, a name, an array of names, or a function that returns one; false, null ' +
    'and an empty array are none',
  async (t) => {
    const marks: [mark: unknown, names: readonly string[]][] = [
      [true, ['default']],
      ['chat', ['chat']],
      ['default', ['default']],
      [['chat', 'default'], ['default', 'chat']],
      [['images', 'chat', 'images'], ['chat', 'images']],
      [false, none],
      [[], none]
    ]
    const expected: object[][] = []
    const functions = [...marks, [null, none] as const].map(
      ([mark, names]): [mark: unknown, names: readonly string[]] => [() => mark, names]
    )
    const { app, ask } = await createServer({ quotas })
    for (const [index, [mark, names]] of [...marks, ...functions].entries()) {
      const path = `/mark-${index}`
      const config = { quota: mark as RouteMark }
      app.post(path, { config }, async ({ quota }) => quota.decisions)
      const operation = { method: 'POST', path }
      expected.push(names.map((quota) => ({ quota, outcome: 'admitted', operation })))
    }
    for (const [index, decisions] of expected.entries()) {
      const { json } = await ask({ url: `/mark-${index}`, headers: { 'x-caller': `${index}` } })
      matchExactly(t, json(), decisions, `mark ${index}`)
    }
  }
)

t.test(
  'the function of a mark gets the request, and is called once for each request',
  async (t) => {
    let calls = 0
    const mark: RouteMark = ({ headers }) => {
      calls += 1
      return headers['x-exempt'] === undefined ? ['images', 'chat'] : null
    }
    const { ask } = await createServer({ mark, quotas })
    matchExactly(t, (await ask()).json(), [{ quota: 'chat' }, { quota: 'images' }])
    t.same(
      (await ask({ headers: { 'x-exempt': 'yes', 'x-caller': '' } })).json(),
      [],
      'without a caller'
    )
    t.equal(calls, 2)
  }
)

t.test(
  'a function that throws, or returns undefined or the name of no quota, refuses with 503, ' +
    'except in shadow mode',
  async (t) => {
    const fail = () => {
      throw new Error('of the host')
    }
    const values = [undefined, 'chatt', ['chat', 'chatt'], 5, {}, [true]]
    const marks: (() => unknown)[] = [
      fail,
      () => Promise.reject(new Error('a mark that rejects ends no process')),
      async () => 'chat',
      ...values.map((value) => () => value)
    ]
    for (const [mode, chatMode, status] of [
      ['enforce', 'enforce', 503],
      ['shadow', 'enforce', 503],
      ['shadow', 'shadow', 200]
    ] as const) {
      const time = virtualPerformance(t)
      let mark = fail as () => unknown
      const { ask, counts, log } = await createServer({
        mark: () => mark() as string,
        mode,
        quotas: { chat: { mode: chatMode } }
      })
      const enforced = status === 503
      for (mark of marks) {
        time.advance(60_000)
        log.lines.length = 0
        const messages = await published(async () => {
          t.equal((await ask()).statusCode, status, `${mark} ${mode}`)
        })
        const decision = { quota: null, outcome: 'unavailable', reason: 'mark', callerKey: null }
        matchExactly(t, messages, [{ decision: { ...decision, enforced } }])
        matchExactly(t, log.problems(), [
          {
            msg: /quotas of the request could not be determined/,
            err: { message: /of the host|POST \/run/ }
          }
        ])
      }
      t.same(await counts(['default', 'chat']), [0, 0])
    }
  }
)

t.test('a mark is read for each request, whatever an earlier one has found there', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { authentication: asAlice, operations: [], quotas })
  const names = ['chat']
  app.addHook('onRequest', async ({ headers, routeOptions }) => {
    const { 'x-mark': mark } = headers
    if (mark !== undefined) routeOptions.config.quota = String(mark)
  })
  const handler: RouteHandlerMethod = async (request) =>
    request.quota.decisions.map(({ quota }) => quota).join()
  app.post('/array', { config: { quota: names } }, handler)
  app.post('/hook', handler)
  const ask = async (url: string, headers = {}): Promise<string> =>
    (await app.inject({ method: 'POST', url, headers })).body
  t.equal(await ask('/array'), 'chat')
  names.push('images')
  t.equal(await ask('/array'), 'chat,images')
  names.length = 0
  t.equal(await ask('/array'), '')
  t.equal(await ask('/hook'), '')
  t.equal(await ask('/hook', { 'x-mark': 'images' }), 'images')
  t.equal(await ask('/hook', { 'x-mark': 'chat' }), 'chat')
})

t.test('start-up fails if a mark names a quota that does not exist', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { quotas: { chat: {} } })
  const declare = (scope: FastifyInstance, mark: unknown) => {
    scope.post('/v1/:model', { config: { quota: mark } as object }, ran)
  }
  const failure = (value: string) => ({
    code: 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA',
    message:
      'fastify-llm-quota: config.quota of the route POST /v1/:model must name an existing ' +
      `quota (default, chat); it got ${value}`
  })
  for (const [mark, value] of [
    ['chatt', '"chatt"'],
    [['chat', 'chatt'], '"chatt"'],
    [5, '5'],
    ['', '""'],
    ['true', '"true"'],
    [{}, 'an object'],
    [[true], 'true'],
    ['__proto__', '"__proto__"']
  ] as const) {
    t.throws(() => {
      declare(app, mark)
    }, failure(value))
  }
  const register = async () => {
    await app.register(async (scope) => {
      declare(scope, 'chatt')
    })
  }
  await t.rejects(register, failure('"chatt"'), 'within a plugin')
})

t.test(
  'a marked route that is declared before the plugin is subject to the quota, and one that ' +
    'names no quota gets 503',
  async (t) => {
    const log = captureLog()
    const app: FastifyInstance = Fastify({ logger: log.logger })
    for (const [url, quota] of [
      ['/run', true],
      ['/function', () => 'default'],
      ['/mistaken', 'chatt']
    ] as const) {
      app.post(url, { config: { quota } }, ran)
    }
    await app.register(quotaPlugin, { authentication: asAlice, perMinute: 2 })
    const statuses = []
    for (const url of ['/run', '/function', '/run', '/mistaken']) {
      statuses.push((await app.inject({ method: 'POST', url })).statusCode)
    }
    t.same(statuses, [200, 200, 429, 503])
    matchExactly(t, log.failures(), [
      {
        err: {
          code: 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA',
          message: /POST \/mistaken .*it got a string$/
        }
      }
    ])
  }
)

t.test('a mark has no effect outside the scope of the plugin', async (t) => {
  const app: FastifyInstance = Fastify()
  app.post('/outside', marked, ran)
  await app.register(
    async (scope) => {
      await scope.register(quotaPlugin)
      scope.post('/inside', marked, ran)
    },
    { prefix: '/scope' }
  )
  t.same(
    [
      (await app.inject({ method: 'POST', url: '/outside' })).statusCode,
      (await app.inject({ method: 'POST', url: '/scope/inside' })).statusCode
    ],
    [200, 401]
  )
})
