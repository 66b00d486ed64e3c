// docs/rules.md, "Refusal": the responses 401, 429 and 503, and the option refusalBody.
import { gzipSync } from 'node:zlib'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, {
  MemoryQuotaStore,
  type QuotaStore,
  type RefusalBody,
  type RefusalBodyWriter,
  type QuotaDefinition
} from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { matchExactly } from '../support/match-exactly.js'
import { createHost } from '../support/quota-host.js'
import { alice, analyze, asAlice, captureLog, createService, statuses } from '../support/service.js'

const unauthenticated =
  '{"error":"Authentication is required for this LLM operation.","status":401}'

t.test(
  'Retry-After is the time until the window ends, in seconds, rounded up and at least 1',
  async (t) => {
    const clock = new VirtualClock()
    const app = await createService({
      perMinute: 1,
      store: new MemoryQuotaStore({ clock: clock.now })
    })
    await analyze(app, alice)
    for (const [at, seconds] of [
      [0, '60'],
      [0.5, '60'],
      [1, '60'],
      [999, '60'],
      [1_000, '59'],
      [1_000.25, '59'],
      [30_000, '30'],
      [58_999, '2'],
      [59_000, '1'],
      [59_999, '1'],
      [59_999.75, '1']
    ] as const) {
      clock.advance(at - clock.now())
      t.equal(
        (await analyze(app, alice)).headers['retry-after'],
        seconds,
        `${at} ms into the window`
      )
    }
    clock.advance(60_000 - clock.now())
    t.same(await statuses(app, alice, 1), [200])
  }
)

const valid = {
  admitted: true,
  granted: 1,
  count: 1,
  held: 0,
  windowRemaining: 5000,
  overflow: false
}
// What a store returns for the one demand of a request, and the status. Which fields are valid is
// checked in test/stores.
const results: [result: unknown, status: number][] = [
  [[valid], 200],
  [[{ ...valid, count: -5 }], 503],
  [[undefined], 503],
  [[valid, valid], 503],
  [[], 503],
  [valid, 503],
  ['no', 503],
  [null, 503]
]

t.test(
  'a store can return its result, a promise, or an object with a function then; an invalid ' +
    'result is a 503',
  async (t) => {
    for (const [result, status] of results) {
      const thenable = {
        then: (resolve: (value: unknown) => void) => {
          resolve(result)
        }
      }
      for (const given of [result, Promise.resolve(result), thenable]) {
        const log = captureLog()
        const store: QuotaStore = Object.assign(new MemoryQuotaStore(), { acquire: () => given })
        const app = await createService({ store, authentication: asAlice }, { logger: log.logger })
        t.same(await statuses(app, null, 1), [status], JSON.stringify(result))
        const failure = {
          msg: /store failed/,
          counters: ['default'],
          err: { message: /^the quota store returned an invalid result from acquire: / }
        }
        matchExactly(t, log.problems(), status === 200 ? [] : [failure])
      }
    }
  }
)

const bodies: Record<string, [body: string, retryAfter: string | undefined]> = {
  401: [unauthenticated, undefined],
  429: [
    '{"error":"Rate limit exceeded. Maximum 1 LLM requests per minute. Please wait.","status":429}',
    '60'
  ],
  503: ['{"error":"The request quota is unavailable. Please try again.","status":503}', '1']
}

// What a host does that must not affect a refusal.
const habits: Record<string, (app: FastifyInstance) => void> = {
  'an error handler': (app) => {
    app.setErrorHandler(async (_error, _request, reply) => reply.code(418).send('another answer'))
  },
  'a reply serializer': (app) => {
    app.setReplySerializer((payload) => `wrapped ${JSON.stringify(payload)}`)
  },
  'a serializer compiler': (app) => {
    app.setSerializerCompiler(() => () => 'compiled')
  },
  'a status, a type and headers set early': (app) => {
    app.addHook('onRequest', async (_request, reply) => {
      reply.code(201).type('text/plain').headers({ 'cache-control': 'public' })
    })
  },
  'a serializer set early': (app) => {
    app.addHook('onRequest', async (_request, reply) => {
      reply.serializer(() => 'serialized')
    })
  },
  'an asynchronous onSend hook': (app) => {
    app.addHook('onSend', async (_request, _reply, payload) => {
      await null
      return payload
    })
  },
  'a preSerialization hook': (app) => {
    app.addHook('preSerialization', async () => ({ replaced: true }))
  },
  'an onError hook': (app) => {
    app.addHook('onError', async (_request, reply) => {
      reply.code(418)
    })
  }
}

const schemas = [
  {
    '4xx': { type: 'object', properties: {}, additionalProperties: false },
    '5xx': { type: 'string' }
  },
  { 401: { type: 'array' }, 429: { type: 'number' }, 503: { type: 'null' } },
  {
    default: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] }
  }
]

t.test(
  'the bytes of a refusal do not depend on hooks, handlers, serializers and schemas of the host',
  async (t) => {
    const hosts: [string, ((app: FastifyInstance) => void) | undefined, object | undefined][] = [
      ...Object.entries(habits).map(([what, habit]): [string, typeof habit, undefined] => [
        what,
        habit,
        undefined
      ]),
      ...schemas.map((schema): [string, undefined, object] => [
        JSON.stringify(schema),
        undefined,
        schema
      ]),
      [
        'all of them',
        (app) => {
          for (const habit of Object.values(habits)) habit(app)
        },
        schemas[0]
      ]
    ]
    for (const [what, habit, schema] of hosts) {
      for (const [status, [body, retryAfter]] of Object.entries(bodies)) {
        const app = Fastify()
        const memory = new MemoryQuotaStore({ clock: new VirtualClock().now })
        const store: QuotaStore =
          status === '503'
            ? {
                acquire () {
                  throw new Error('gone')
                }
              }
            : memory
        habit?.(app)
        await app.register(quotaPlugin, {
          perMinute: 1,
          store,
          authentication: () => (status === '401' ? null : asAlice())
        })
        let ran = 0
        app.post('/api/analyze', { ...(schema && { schema: { response: schema } }) }, async () => {
          ran += 1
          return { message: 'ran' }
        })
        const responses = [
          await app.inject({ method: 'POST', url: '/api/analyze' }),
          await app.inject({ method: 'POST', url: '/api/analyze' })
        ]
        const { statusCode, body: sent, headers } = responses[1] ?? {}
        t.same(
          [
            statusCode,
            sent,
            headers?.['content-type'],
            headers?.['cache-control'],
            headers?.['retry-after']
          ],
          [Number(status), body, 'application/json; charset=utf-8', 'no-store', retryAfter],
          what
        )
        t.equal(ran, status === '429' ? 1 : 0)
      }
    }
  }
)

t.test('the onSend hooks of the host run, and can encode the refusal', async (t) => {
  const app = await createService(
    {},
    {},
    {
      before: (app) =>
        app.addHook('onSend', async (_request, reply, payload) => {
          t.equal(payload, unauthenticated)
          reply.header('content-encoding', 'gzip')
          return gzipSync(String(payload))
        })
    }
  )
  t.same((await analyze(app, null)).rawPayload, gzipSync(unauthenticated))
})

t.test(
  'an error handler can send an object in place of a refusal whose onSend hook has failed',
  async (t) => {
    const app = await createService(
      {},
      {},
      {
        before (app) {
          app.setErrorHandler(async () => ({ failed: true }))
          app.addHook('onSend', async (_request, _reply, payload) => {
            if (payload === unauthenticated) throw new Error('no encoder')
          })
        }
      }
    )
    t.same((await analyze(app, null)).json(), { failed: true })
  }
)

t.test(
  'refusalBody replaces the body and its content type; the status and the other headers do ' +
    'not change',
  async (t) => {
    const contentType = 'application/problem+json'
    const refusalBody: RefusalBodyWriter = ({ outcome, quota, limit }, { url }) => ({
      contentType,
      body: JSON.stringify({ outcome, quota, limit, url })
    })
    const memory = new MemoryQuotaStore({ clock: new VirtualClock().now })
    const store: QuotaStore = { acquire: (...asked) => memory.acquire(...asked) }
    const app = await createService({ perMinute: 1, refusalBody, store })
    const headers = { 'content-type': contentType, 'cache-control': 'no-store' }
    const bodyOf = (outcome: string) =>
      `{"outcome":"${outcome}","quota":"default","limit":1,"url":"/api/analyze"}`
    t.equal((await analyze(app, alice)).body, '{"ran":"/api/analyze"}')
    matchExactly(t, await analyze(app, alice), {
      statusCode: 429,
      body: bodyOf('rejected'),
      headers: {
        ...headers,
        'retry-after': '60',
        'content-length': String(bodyOf('rejected').length)
      }
    })
    matchExactly(t, await analyze(app, null), {
      statusCode: 401,
      body: bodyOf('unauthenticated'),
      headers
    })
    store.acquire = () => {
      throw new Error('gone')
    }
    matchExactly(t, await analyze(app, alice), {
      statusCode: 503,
      body: bodyOf('unavailable'),
      headers: { ...headers, 'retry-after': '1' }
    })
  }
)

t.test('a refusal has the default body where refusalBody returns null', async (t) => {
  const log = captureLog()
  const asked: unknown[] = []
  const refusalBody: RefusalBodyWriter = ({ outcome, retryAfter }) => {
    asked.push([outcome, retryAfter])
    return outcome === 'rejected' ? { contentType: 'text/plain', body: 'too many' } : null
  }
  const store = new MemoryQuotaStore({ clock: new VirtualClock().now })
  const app = await createService({ perMinute: 1, refusalBody, store }, { logger: log.logger })
  await analyze(app, alice)
  matchExactly(t, await analyze(app, null), {
    statusCode: 401,
    body: unauthenticated,
    headers: { 'content-type': 'application/json; charset=utf-8' }
  })
  matchExactly(t, await analyze(app, alice), { statusCode: 429, body: 'too many' })
  t.same(asked, [['unauthenticated', null], ['rejected', 60]])
  t.same(log.problems(), [])
})

const failing: [string, () => unknown][] = [
  [
    'throws',
    () => {
      throw new Error('of the host')
    }
  ],
  ['returns a promise', async () => ({ contentType: 'text/plain', body: 'no' })],
  [
    'returns a promise that rejects',
    async () => {
      throw new Error('a refusalBody that rejects ends no process')
    }
  ],
  [
    'returns an object that cannot be read',
    () => ({
      get body () {
        throw new Error('of the host')
      }
    })
  ],
  ...[
    undefined,
    'no',
    { body: 'no' },
    { contentType: 'text/plain' },
    { contentType: 'text/plain', body: {} }
  ].map((value): [string, () => unknown] => [`returns ${JSON.stringify(value)}`, () => value]),
  ...[
    '',
    'plain',
    '/plain',
    'text/',
    'text/;charset=utf-8',
    ' text/plain',
    'text/(plain',
    'text /plain',
    'text/plain, text/html',
    'text/plain x; charset=utf-8',
    'text//plain',
    'text/plain; a="\n"'
  ].map((contentType): [string, () => unknown] => [
    `returns the content type "${contentType}"`,
    () => ({ contentType, body: 'no' })
  ])
]

t.test(
  'the refusal has the default body if refusalBody fails, and the error is logged',
  async (t) => {
    for (const [what, refusalBody] of failing) {
      const log = captureLog()
      const app = await createService(
        { refusalBody: refusalBody as () => RefusalBody },
        { logger: log.logger }
      )
      matchExactly(
        t,
        await analyze(app, null),
        {
          statusCode: 401,
          body: unauthenticated,
          headers: { 'content-type': 'application/json; charset=utf-8' }
        },
        what
      )
      matchExactly(t, log.problems(), [{ msg: /refusalBody failed/, err: { message: /\w/ } }], what)
    }
  }
)

t.test('the content type can be any media type, with or without parameters', async (t) => {
  for (const contentType of [
    'a/b',
    'application/vnd.api+json',
    "!#$%&'*+.^`|~-_9/!#$%&'*+.^`|~-_9",
    'text/plain;charset=utf-8',
    'text/plain  ; charset=utf-8',
    'text/plain '
  ]) {
    const { body, headers } = await analyze(
      await createService({ refusalBody: () => ({ contentType, body: 'of the host' }) }),
      null
    )
    t.equal(body, 'of the host', contentType)
    t.ok(String(headers['content-type']).startsWith(contentType.trim()), contentType)
  }
})

t.test(
  'refusalBody is not called in shadow mode or for admitted requests, and without it a ' +
    'refusal logs no error',
  async (t) => {
    const log = captureLog()
    const refusalBody = () => {
      throw new Error('not to be called')
    }
    await analyze(
      await createService({ refusalBody, mode: 'shadow' }, { logger: log.logger }),
      null
    )
    await analyze(await createService({ refusalBody }, { logger: log.logger }), alice)
    await analyze(await createService({}, { logger: log.logger }), null)
    t.same(log.errors(), [])
  }
)

t.test('a request that can never be admitted is told so, and not to wait', async (t) => {
  const rows: [definition: QuotaDefinition, message: string][] = [
    [
      { perMinute: 10, cost: 11 },
      'The request needs more than the maximum of 10 LLM requests per minute.'
    ],
    [
      { perDay: { tokens: 10 }, cost: { least: 11, most: 12 } },
      'The request needs more than the maximum of 10 LLM tokens per day.'
    ],
    [
      { limit: { tokens: 5 }, window: 90_000, cost: 6 },
      'The request needs more than the maximum of 5 LLM tokens per 90 seconds.'
    ],
    [{ perHour: () => 0 }, 'Maximum 0 LLM requests per hour.'],
    [{ perMonth: { tokens: () => -5 }, cost: 0 }, 'Maximum 0 LLM tokens per month.'],
    [{ concurrent: () => 0 }, 'Maximum 0 concurrent LLM requests.']
  ]
  for (const [chat, message] of rows) {
    const { ask } = await createHost('chat', {
      quotas: { chat },
      rateLimitHeaders: 'draft-10'
    })
    const { statusCode, headers, json } = await ask()
    t.same(json(), { error: `Rate limit exceeded. ${message}`, status: 429 })
    t.same([statusCode, headers['retry-after']], [429, undefined])
    t.notMatch(String(headers.ratelimit), /;t=/, 'none where there is no Retry-After')
  }
})

t.test('a limit that a function returns as Infinity counts and refuses none', async (t) => {
  const { ask, counts } = await createHost('chat', {
    quotas: { chat: { perMinute: () => Infinity } },
    rateLimitHeaders: 'draft-10'
  })
  for (let request = 1; request <= 20; request++) {
    const { statusCode, headers } = await ask()
    t.same([statusCode, headers.ratelimit, await counts(['chat'])], [200, undefined, [request]])
  }
})

t.test('a cost can be a promise, which must settle within preferenceTimeout', async (t) => {
  const never = new Promise<number>(() => {})
  const { ask, counts } = await createHost('chat', {
    preferenceTimeout: 20,
    quotas: {
      chat: {
        perMinute: { tokens: 50 },
        cost: ({ headers }) => (headers['x-never'] === undefined ? Promise.resolve(7) : never)
      }
    }
  })
  t.equal((await ask()).statusCode, 200)
  t.same(await counts(['chat']), [7])
  t.equal((await ask({ headers: { 'x-never': 'yes' } })).statusCode, 503)
  t.same(await counts(['chat']), [7])
})
