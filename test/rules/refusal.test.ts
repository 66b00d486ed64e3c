// docs/rules.md, "Refusal": the responses 401, 429 and 503, and the option refusalBody.
import { once } from 'node:events'
import { get } from 'node:http'
import { createRequire } from 'node:module'
import { gzipSync } from 'node:zlib'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, {
  MemoryQuotaStore,
  type QuotaDefinition,
  type QuotaStore,
  type RefusalBody,
  type RefusalBodyWriter
} from '../../lib/index.js'
import { captureLog } from '../support/log.js'
import { matchExactly } from '../support/match-exactly.js'
import { listen } from '../support/raw-socket.js'
import { createServer, nobody, type ServerOptions } from '../support/server.js'
import { virtualPerformance } from '../support/time.js'
import { until } from '../support/until.js'

const unauthenticated =
  '{"error":"Authentication is required for this LLM operation.","status":401}'

t.test(
  'Retry-After is the time until the window ends, in seconds, rounded up and at least 1',
  async (t) => {
    const { ask, statuses, clock } = await createServer({ perMinute: 1 })
    await ask()
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
      t.equal((await ask()).headers['retry-after'], seconds, `${at} ms into the window`)
    }
    clock.advance(60_000 - clock.now())
    t.same(await statuses(1), [200])
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
  [undefined, 503],
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
    let given: unknown
    const store = Object.assign(new MemoryQuotaStore(), { acquire: () => given as never })
    const { statuses, log } = await createServer({ store })
    for (const [result, status] of results) {
      const thenable = {
        then: (resolve: (value: unknown) => void) => {
          resolve(result)
        }
      }
      for (given of [result, Promise.resolve(result), thenable]) {
        log.lines.length = 0
        t.same(await statuses(1), [status], JSON.stringify(result))
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

/** A server with a limit of 1, and a function that makes its store fail from then on. */
async function createRefusingServer (options: ServerOptions = {}) {
  let isDown = false
  const memory = new MemoryQuotaStore({ clock: () => 0 })
  const store: QuotaStore = {
    acquire (demands) {
      if (isDown) throw new Error('gone')
      return memory.acquire(demands)
    }
  }
  const server = await createServer({ perMinute: 1, ...options, store })
  const fail = (): void => {
    isDown = true
  }
  return { ...server, fail }
}

/** Returns the responses to an admitted request, and to those that are refused in each way. */
async function refusalsOf ({ ask, fail }: Awaited<ReturnType<typeof createRefusingServer>>) {
  const admitted = await ask()
  const rejected = await ask()
  const withoutCaller = await ask({ headers: nobody })
  fail()
  return { admitted, 401: withoutCaller, 429: rejected, 503: await ask() }
}

const refusals = [
  [401, unauthenticated, undefined],
  [
    429,
    '{"error":"Rate limit exceeded. Maximum 1 LLM requests per minute. Please wait.","status":429}',
    '60'
  ],
  [503, '{"error":"The request quota is unavailable. Please try again.","status":503}', '1']
] as const

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
  },
  ...Object.fromEntries(
    [
      {
        '4xx': { type: 'object', properties: {}, additionalProperties: false },
        '5xx': { type: 'string' }
      },
      { 401: { type: 'array' }, 429: { type: 'number' }, 503: { type: 'null' } },
      {
        default: {
          type: 'object',
          properties: { message: { type: 'string' } },
          required: ['message']
        }
      }
    ].map((response) => [`the schema ${JSON.stringify(response)}`, withSchema(response)])
  ),
  'all of them' (app) {
    for (const [what, habit] of Object.entries(habits)) if (what !== 'all of them') habit(app)
  }
}

/** Declares these responses in the schema of each route that has none. */
function withSchema (response: object) {
  return (app: FastifyInstance): void => {
    app.addHook('onRoute', (route) => {
      route.schema ??= { response }
    })
  }
}

for (const [what, habit] of Object.entries(habits)) {
  t.test(`the bytes of a refusal do not depend on ${what} of the host`, async (t) => {
    let runs = 0
    const server = await createRefusingServer({
      before: habit,
      handler: async () => {
        runs += 1
        return { message: 'ran' }
      }
    })
    const responses = await refusalsOf(server)
    for (const [status, sent, retryAfter] of refusals) {
      const { statusCode, body, headers } = responses[status]
      t.same(
        [
          statusCode,
          body,
          headers['content-type'],
          headers['cache-control'],
          headers['retry-after']
        ],
        [status, sent, 'application/json; charset=utf-8', 'no-store', retryAfter]
      )
    }
    t.equal(runs, 1, 'the operation ran for the admitted request only')
  })
}

t.test('the onSend hooks of the host run, and can encode the refusal', async (t) => {
  const { ask } = await createServer({
    before: (app) =>
      app.addHook('onSend', async (_request, reply, payload) => {
        t.equal(payload, unauthenticated)
        reply.header('content-encoding', 'gzip')
        return gzipSync(String(payload))
      })
  })
  t.same((await ask({ headers: nobody })).rawPayload, gzipSync(unauthenticated))
})

t.test(
  'an error handler can send an object in place of a refusal whose onSend hook has failed',
  async (t) => {
    const { ask } = await createServer({
      before (app) {
        app.setErrorHandler(async () => ({ failed: true }))
        app.addHook('onSend', async (_request, _reply, payload) => {
          if (payload === unauthenticated) throw new Error('no encoder')
        })
      }
    })
    t.same((await ask({ headers: nobody })).json(), { failed: true })
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
    const server = await createRefusingServer({ refusalBody, handler: async () => 'ran' })
    const responses = await refusalsOf(server)
    t.equal(responses.admitted.body, 'ran')
    for (const [status, outcome, retryAfter] of [
      [401, 'unauthenticated', undefined],
      [429, 'rejected', '60'],
      [503, 'unavailable', '1']
    ] as const) {
      const body = `{"outcome":"${outcome}","quota":"default","limit":1,"url":"/run"}`
      matchExactly(t, responses[status], {
        statusCode: status,
        body,
        headers: {
          'content-type': contentType,
          'cache-control': 'no-store',
          'content-length': String(body.length),
          'retry-after': retryAfter
        }
      })
    }
  }
)

t.test('a refusal has the default body where refusalBody returns null', async (t) => {
  const asked: unknown[] = []
  const refusalBody: RefusalBodyWriter = ({ outcome, retryAfter }) => {
    asked.push([outcome, retryAfter])
    return outcome === 'rejected' ? { contentType: 'text/plain', body: 'too many' } : null
  }
  const { ask, log } = await createServer({ perMinute: 1, refusalBody })
  await ask()
  matchExactly(t, await ask({ headers: nobody }), {
    statusCode: 401,
    body: unauthenticated,
    headers: { 'content-type': 'application/json; charset=utf-8' }
  })
  matchExactly(t, await ask(), { statusCode: 429, body: 'too many' })
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
    const time = virtualPerformance(t)
    let write: () => unknown = () => null
    const { ask, log } = await createServer({ refusalBody: () => write() as RefusalBody })
    let what: string
    for ([what, write] of failing) {
      time.advance(60_000)
      log.lines.length = 0
      const refusal = {
        statusCode: 401,
        body: unauthenticated,
        headers: { 'content-type': 'application/json; charset=utf-8' }
      }
      matchExactly(t, await ask({ headers: nobody }), refusal, what)
      matchExactly(t, log.problems(), [{ msg: /refusalBody failed/, err: { message: /\w/ } }], what)
    }
  }
)

t.test('the content type can be any media type, with or without parameters', async (t) => {
  let contentType = ''
  const { ask } = await createServer({ refusalBody: () => ({ contentType, body: 'own' }) })
  for (contentType of [
    'a/b',
    'application/vnd.api+json',
    "!#$%&'*+.^`|~-_9/!#$%&'*+.^`|~-_9",
    'text/plain;charset=utf-8',
    'text/plain  ; charset=utf-8',
    'text/plain '
  ]) {
    const { body, headers } = await ask({ headers: nobody })
    t.equal(body, 'own', contentType)
    t.ok(String(headers['content-type']).startsWith(contentType.trim()), contentType)
  }
})

t.test('refusalBody is not called in shadow mode or for admitted requests', async (t) => {
  const refusalBody = () => {
    throw new Error('not to be called')
  }
  const shadow = await createServer({ refusalBody, mode: 'shadow' })
  await shadow.statuses(1, nobody)
  const enforced = await createServer({ refusalBody })
  await enforced.statuses(1)
  t.same([...shadow.log.errors(), ...enforced.log.errors()], [])
})

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
  const { ask } = await createServer({
    mark: ({ headers }) => String(headers['x-quota']),
    quotas: Object.fromEntries(rows.map(([definition], index) => [`chat-${index}`, definition])),
    rateLimitHeaders: 'draft-10'
  })
  for (const [index, [, message]] of rows.entries()) {
    const { statusCode, headers, json } = await ask({ headers: { 'x-quota': `chat-${index}` } })
    t.same(json(), { error: `Rate limit exceeded. ${message}`, status: 429 })
    t.same([statusCode, headers['retry-after']], [429, undefined])
    t.notMatch(String(headers.ratelimit), /;t=/, 'none where there is no Retry-After')
  }
})

const versions: [string, typeof Fastify][] = [
  ['fastify', Fastify],
  ['fastify-lowest', createRequire(import.meta.url)('fastify-lowest')]
]
for (const [version, create] of versions) {
  t.test(`a refusal breaks off a response that has begun, with ${version}`, async (t) => {
    const { logger, errors } = captureLog()
    const app: FastifyInstance = create({ forceCloseConnections: true, logger })
    t.teardown(() => app.close())
    await app.register(quotaPlugin, { operations: [], authentication: async () => null })
    app.addHook('onRequest', async (_request, reply) => {
      reply.raw.writeHead(200, { 'content-type': 'text/event-stream' })
      reply.raw.write('data: a\n\n')
    })
    let hasRun = false
    app.get('/events', { config: { quota: true }, exposeHeadRoute: false }, async () => {
      hasRun = true
      return 'b'
    })
    const port = await listen(app)
    const [response] = await once(get({ port, path: '/events', agent: false }), 'response')
    response.on('error', () => {}).resume()
    await until('the response ends', () => response.destroyed)
    t.equal(response.complete, false)
    t.equal(hasRun, false)
    matchExactly(t, errors(), [/a refusal could not be sent/])
  })
}
