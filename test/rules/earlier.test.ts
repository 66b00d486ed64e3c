// docs/rules.md, "Earlier behaviour": one test for each row of the table, compared with the current
// behaviour.
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import Fastify, {
  type FastifyInstance,
  type FastifyServerOptions,
  type InjectOptions
} from 'fastify'
import t from 'tap'
import earlierQuotaPlugin, * as entry from '../../lib/earlier.js'
import quotaPlugin, { protectedOperations } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { listen } from '../support/raw-socket.js'

const methods = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'] as const
const channel = 'fastify-llm-quota:earlier-decision'

async function createEarlier (
  options: entry.EarlierQuotaOptions = {},
  server: FastifyServerOptions = {}
): Promise<FastifyInstance> {
  const app: FastifyInstance = Fastify(server)
  await app.register(earlierQuotaPlugin, options)
  for (const { path } of protectedOperations) {
    app.route({
      method: [...methods],
      url: path,
      exposeHeadRoute: false,
      handler: async () => 'ran'
    })
  }
  return app
}

/** Returns the statuses of several requests, by default to `POST /api/analyze`. */
async function statuses (
  app: FastifyInstance,
  count: number,
  request: InjectOptions = {}
): Promise<number[]> {
  const received = []
  for (let asked = 0; asked < count; asked++) {
    const response = await app.inject({ method: 'POST', url: '/api/analyze', ...request })
    received.push(response.statusCode)
  }
  return received
}

/** A request to `POST /api/analyze` with this `X-Forwarded-For`. */
const from = (forwarded?: string, remoteAddress = '192.0.2.9') => ({
  remoteAddress,
  ...(forwarded !== undefined && { headers: { 'x-forwarded-for': forwarded } })
})

t.test('a request to one of the four paths is counted with any method', async (t) => {
  const app = await createEarlier({ perMinute: 1 })
  for (const { path } of protectedOperations) {
    for (const method of methods) {
      const headers = { 'x-forwarded-for': `${method} ${path}` }
      t.same(
        [
          ...(await statuses(app, 1, { method, url: path, headers })),
          ...(await statuses(app, 1, { method, url: `${path}?again`, headers }))
        ],
        [200, 429],
        `${method} ${path}`
      )
    }
  }
})

t.test('a method that the host adds after the plugin is counted, too', async (t) => {
  const app = await createEarlier({ perMinute: 1 })
  app.addHttpMethod('REPORT')
  const url = '/api/analyze'
  app.route({ method: 'REPORT', url, handler: async () => 'ran' })
  const received = []
  for (const method of ['REPORT', 'REPORT']) {
    received.push((await app.inject({ method, url })).statusCode)
  }
  t.same(received, [200, 429])
})

t.test('no other path is counted', async (t) => {
  const app = await createEarlier({ perMinute: 1, prefix: '/context' })
  app.post('/context/api/analyze', async () => 'ran')
  app.post('/marked', { config: { quota: true } }, async () => 'ran')
  t.same(await statuses(app, 2), [200, 200])
  t.same(await statuses(app, 2, { url: '/marked' }), [200, 200], 'a mark has no effect')
  t.same(
    [
      ...(await statuses(app, 1, { url: '/context/api/analyze' })),
      ...(await statuses(app, 1, { url: '/context/api/%61nalyze' }))
    ],
    [200, 429]
  )
})

// Two requests, each with its X-Forwarded-For and its peer, and whether they have one caller.
const callers: [
  one: [string | undefined, string?],
  other: [string | undefined, string?],
  isSame: boolean
][] = [
  [['198.51.100.1'], [' 198.51.100.1 ', '192.0.2.8'], true],
  [['198.51.100.1, 10.0.0.1'], ['198.51.100.1,10.0.0.2'], true],
  [['198.51.100.1'], ['198.51.100.2'], false],
  [['10.0.0.1, 198.51.100.1'], ['10.0.0.2, 198.51.100.1'], false],
  [['unknown words'], ['unknown words'], true],
  [[', 198.51.100.1', '192.0.2.1'], [',198.51.100.2', '192.0.2.2'], true],
  ...[undefined, '', '   '].flatMap((none): typeof callers => [
    [[none, '192.0.2.1'], [none, '192.0.2.2'], false],
    [[none, '192.0.2.1'], [none, '192.0.2.1'], true]
  ])
]

t.test(
  'the first entry of X-Forwarded-For, trimmed, identifies the caller, even if it is empty, or ' +
    'the address of the peer if the header is missing or blank',
  async (t) => {
    const clock = new VirtualClock()
    const app = await createEarlier({ perMinute: 1, clock: clock.now }, { trustProxy: true })
    for (const [one, other, isSame] of callers) {
      clock.advance(60_001)
      t.same(
        [
          ...(await statuses(app, 1, from(...one))),
          ...(await statuses(app, 1, from(...other)))
        ],
        [200, isSame ? 429 : 200],
        `${one} and ${other}`
      )
    }
  }
)

t.test('a preference of 0 or less disables the quota, whatever the property', async (t) => {
  const preferences = new Map<string, unknown>()
  const app = await createEarlier({ perMinute: 1, preferences })
  for (const value of [0, '0', -1, '-5']) {
    preferences.set('rate-limit.per-minute', value)
    t.same(await statuses(app, 2), [200, 200], JSON.stringify(value))
  }
})

t.test(
  'authentication is not checked, and a limit of 0 or a negative limit disables the quota',
  async (t) => {
    for (const perMinute of [0, -1]) {
      t.same(
        await statuses(await createEarlier({ perMinute }), 2),
        [200, 200],
        String(perMinute)
      )
    }
    t.same(await statuses(await createEarlier({ perMinute: 1 }), 2), [200, 429])
  }
)

t.test(
  'a new window begins after more than 60 s; the request that begins it counts as 1',
  async (t) => {
    const clock = new VirtualClock()
    const app = await createEarlier({ perMinute: 2, clock: clock.now })
    t.same(await statuses(app, 3), [200, 200, 429])
    clock.advance(60_000)
    t.same(await statuses(app, 1), [429], 'the current quota would begin a new window now')
    clock.advance(1)
    t.same(await statuses(app, 3), [200, 200, 429])
  }
)

t.test(
  'a 429 has the same body as in the current quota, but neither Retry-After nor Cache-Control',
  async (t) => {
    const app = await createEarlier({ perMinute: 1 })
    await statuses(app, 1)
    const { statusCode, body, headers } = await app.inject({ method: 'POST', url: '/api/analyze' })
    t.same(
      [statusCode, body],
      [
        429,
        '{"error":"Rate limit exceeded. Maximum 1 LLM requests per minute. Please ' +
          'wait.","status":429}'
      ]
    )
    matchExactly(t, headers, {
      'content-type': 'application/json; charset=utf-8',
      'retry-after': undefined,
      'cache-control': undefined
    })
  }
)

t.test('all callers are tracked: there is no cap, no sweep and no overflow counter', async (t) => {
  const clock = new VirtualClock()
  const app = await createEarlier({ perMinute: 1, clock: clock.now })
  const addresses = Array.from({ length: 10_001 }, (_, address) => `address ${address}`)
  t.teardown(() => app.close())
  const port = await listen(app)
  /** Sends a request of each address over one connection, without waiting between them. */
  const statusesOf = async (some: readonly string[]): Promise<string[]> => {
    const request = 'POST /api/analyze HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n'
    const requests = some.map((address) => `${request}X-Forwarded-For: ${address}\r\n`)
    const socket = connect(port, '127.0.0.1')
    socket.write(`${requests.join('\r\n')}Connection: close\r\n\r\n`)
    return (await text(socket)).match(/(?<=HTTP\/1\.1 )\d+/g) ?? []
  }
  t.same(await statusesOf(addresses), addresses.map(() => '200'))
  clock.advance(60_000)
  const firstAndLast = [...addresses.slice(0, 5), ...addresses.slice(-5)]
  t.same(await statusesOf(firstAndLast), firstAndLast.map(() => '429'))
})

t.test(
  'the preference key and the default of 10 are the same as in the current quota',
  async (t) => {
    t.same(await statuses(await createEarlier(), 11), [...Array(10).fill(200), 429])
    for (const preferences of [
      new Map([['rate-limit.per-minute', '1']]),
      { get: async (key: string) => (key === 'rate-limit.per-minute' ? 1 : 5) }
    ]) {
      t.same(await statuses(await createEarlier({ preferences }), 2), [200, 429])
    }
    const host = await createEarlier()
    host.decorate('preferences', new Map([['rate-limit.per-minute', 1]]))
    t.same(await statuses(host, 2), [200, 429])
  }
)

t.test('an error of an onSend hook after a rejection is sent as JSON', async (t) => {
  const app = Fastify()
  app.setErrorHandler(async (error: Error) => ({ message: error.message }))
  await app.register(earlierQuotaPlugin, { perMinute: 1 })
  app.post('/api/analyze', async () => 'ran')
  app.addHook('onSend', async (_request, _reply, payload) => {
    if (String(payload).startsWith('{"error":"Rate limit')) throw new Error('of the host')
  })
  const request = { method: 'POST', url: '/api/analyze' } as const
  await app.inject(request)
  const { statusCode, json } = await app.inject(request)
  t.equal(statusCode, 429)
  t.match(json(), { message: 'of the host' })
})

t.test('the start-up checks are those of the current quota', async (t) => {
  for (const [options, message] of [
    [{ store: {} }, /option store does not exist/],
    [{ clock: 5 }, /option clock must be a function; it got 5/],
    [{ perMinute: 'x' }, /option perMinute/]
  ] as const) {
    await t.rejects(createEarlier(Object(options)), { code: 'FST_ERR_LLM_QUOTA_OPTION', message })
  }
  const app = await createEarlier()
  await t.rejects(
    async () => {
      await app.register(earlierQuotaPlugin)
    },
    { code: 'FST_ERR_LLM_QUOTA_SECOND_REGISTRATION' }
  )
})

t.test(
  'the earlier plugin decorates nothing, and works together with the current one in shadow mode',
  async (t) => {
    const app = Fastify()
    const before = Object.keys(app).length
    await app.register(earlierQuotaPlugin, { perMinute: 1 })
    t.equal(Object.keys(app).length, before)
    await app.register(quotaPlugin, { perMinute: 5, mode: 'shadow' })
    app.post('/api/analyze', async (_request, reply) => reply.callNotFound())
    const current: unknown[] = []
    const earlier = await published(async () => {
      current.push(
        ...(await published(async () => {
          t.same(await statuses(app, 2), [404, 429])
        }))
      )
    }, channel)
    const operation = { method: 'POST', path: '/api/analyze' }
    t.same(
      earlier.map(({ decision }) => decision),
      [{ outcome: 'admitted', operation, limit: 1 }, { outcome: 'rejected', operation, limit: 1 }]
    )
    matchExactly(t, current, [{ decision: { outcome: 'unauthenticated' } }])
  }
)
