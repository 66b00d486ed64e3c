// The option rateLimitHeaders: the fields of draft-ietf-httpapi-ratelimit-headers-10.
import { once } from 'node:events'
import { get } from 'node:http'
import { Readable } from 'node:stream'
import { parseList } from 'structured-headers'
import t from 'tap'
import {
  type QuotaOptions,
  type QuotaStore
} from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { listen } from '../support/raw-socket.js'
import { asAlice, createServer } from '../support/server.js'

/** Parses both fields with an independent parser of structured fields: names and parameters. */
function fields (headers: Record<string, unknown>): unknown {
  const [policy, state] = ['ratelimit-policy', 'ratelimit'].map((name) =>
    parseList(String(headers[name])).map(([item, parameters]) => [
      item,
      Object.fromEntries(parameters)
    ])
  )
  return { policy, state }
}

const left = (r: number, seconds: number) => ({
  policy: [['default', { q: 2, w: 60 }]],
  state: [['default', { r, t: seconds }]]
})

const alone: QuotaOptions = { rateLimitHeaders: 'draft-10', authentication: asAlice, perMinute: 2 }

t.test(
  'the responses to admitted and rejected requests have both fields, and t is equal to Retry-After',
  async (t) => {
    const { ask, clock } = await createServer({ rateLimitHeaders: 'draft-10', perMinute: 2 })
    const first = await ask()
    t.equal(first.headers['ratelimit-policy'], '"default";q=2;w=60')
    t.equal(first.headers.ratelimit, '"default";r=1;t=60')
    t.same(fields(first.headers), left(1, 60))
    clock.advance(17_001)
    t.same(fields((await ask()).headers), left(0, 43))
    clock.advance(42_000)
    const rejected = await ask()
    t.equal(rejected.statusCode, 429)
    t.same(fields(rejected.headers), left(0, 1))
    t.equal(rejected.headers['retry-after'], '1')
  }
)

t.test('of a rejected request, t is when to try again, whenever the window ends', async (t) => {
  const { ask, begin } = await createServer({
    rateLimitHeaders: 'draft-10',
    quotas: { tokens: { perMinute: { tokens: 100 }, cost: 60 } }
  })
  await begin()
  const { statusCode, headers } = await ask()
  t.equal(statusCode, 429)
  t.equal(headers['retry-after'], '1', 'the request that is under way may give something back')
  t.equal(headers.ratelimit, '"tokens";r=40;t=1')
})

t.test('a request that can never be admitted has no t', async (t) => {
  const { ask } = await createServer({
    rateLimitHeaders: 'draft-10',
    quotas: { tokens: { perMinute: { tokens: 10 }, cost: 11 } }
  })
  const { statusCode, headers } = await ask()
  t.equal(statusCode, 429)
  t.equal(headers.ratelimit, '"tokens";r=10')
})

t.test('w is a whole number of seconds, rounded up, as the draft requires', async (t) => {
  const { ask } = await createServer({
    rateLimitHeaders: 'draft-10',
    quotas: { own: { limit: 5, window: 1_500 } }
  })
  const { headers } = await ask()
  t.equal(headers['ratelimit-policy'], '"own";q=5;w=2')
})

t.test(
  'r is never negative, and no number exceeds the range of an Integer in structured fields',
  async (t) => {
    const preferences = new Map<string, unknown>([['rate-limit.per-minute', 3]])
    const { ask, statuses } = await createServer({ rateLimitHeaders: 'draft-10', preferences })
    await statuses(3)
    preferences.set('rate-limit.per-minute', 1)
    matchExactly(t, fields((await ask()).headers), {
      policy: [['default', { q: 1 }]],
      state: [['default', { r: 0 }]]
    })
    preferences.set('rate-limit.per-minute', Number.MAX_SAFE_INTEGER)
    matchExactly(t, fields((await ask()).headers), {
      policy: [['default', { q: 999_999_999_999_999 }]],
      state: [['default', { r: 999_999_999_999_999 }]]
    })
  }
)

t.test('a response has no fields if nothing was counted or enforced', async (t) => {
  const store: QuotaStore = {
    acquire () {
      throw new Error('gone')
    },
    settle () {}
  }
  const without: [string, QuotaOptions, caller: string, number][] = [
    ['the option is unset', { rateLimitHeaders: undefined }, 'alice', 200],
    ['the request is not authenticated', {}, '', 401],
    ['the quota is disabled', { perMinute: 0 }, 'alice', 200],
    ['shadow mode', { mode: 'shadow' }, 'alice', 200],
    ['one of two stores fails', { quotas: { failing: { store } } }, 'alice', 503]
  ]
  for (const [what, options, caller, status] of without) {
    const mark = options.quotas === undefined ? 'default' : ['default', 'failing']
    const { ask } = await createServer({ rateLimitHeaders: 'draft-10', mark, ...options })
    const response = await ask({ headers: { 'x-caller': caller } })
    t.equal(response.statusCode, status)
    t.notOk('ratelimit' in response.headers || 'ratelimit-policy' in response.headers, what)
  }
  const { app } = await createServer({ rateLimitHeaders: 'draft-10' })
  app.get('/other', async () => 'ran')
  t.notOk('ratelimit' in (await app.inject('/other')).headers, 'a request that is not subject')
})

t.test(
  'streams and hijacked replies have the fields, and a handler can replace or remove them',
  async (t) => {
    const { app } = await createServer({ ...alone, perMinute: 100 })
    t.teardown(() => app.close())
    const quota = true
    app.get('/stream', { config: { quota } }, async (_request, reply) =>
      reply.send(Readable.from(['a', 'b']))
    )
    app.get('/hijacked', { config: { quota } }, (_request, reply) => {
      reply.hijack()
      reply.raw.writeHead(200, { 'content-type': 'text/event-stream' })
      reply.raw.end('data: a\n\n')
    })
    app.get('/replaced', { config: { quota } }, async (_request, reply) =>
      reply.header('RateLimit', '"own";r=1').send('a')
    )
    app.get('/removed', { config: { quota } }, async (_, reply) =>
      reply.removeHeader('ratelimit').removeHeader('ratelimit-policy').send('a')
    )
    const port = await listen(app)
    const ratelimit = async (path: string) => {
      const [response] = await once(get({ port, path, agent: false }), 'response')
      response.resume()
      return response.headers.ratelimit
    }
    t.match(await ratelimit('/stream'), '"default";r=99;t=60')
    t.match(await ratelimit('/hijacked'), '"default";r=98;t=60')
    t.equal(await ratelimit('/replaced'), '"own";r=1')
    t.equal(await ratelimit('/removed'), undefined)
  }
)

t.test(
  'a response that the host has begun before the decision has no fields, and continues',
  async (t) => {
    const { app, ask } = await createServer({
      ...alone,
      preferences: { get: async () => 2 },
      handler: (_request, reply) => {
        reply.hijack()
        reply.raw.end('host')
      }
    })
    app.addHook('preValidation', async (_request, reply) => {
      reply.raw.writeHead(200)
      reply.raw.write('of the ')
    })
    const response = await ask()
    t.equal(response.body, 'of the host')
    t.notOk('ratelimit' in response.headers)
  }
)

t.test('a quota with rateLimitHeaders false has no item in the headers', async (t) => {
  const { ask } = await createServer({
    mark: ['default', 'service'],
    quotas: { service: { perMinute: 90, rateLimitHeaders: false } },
    rateLimitHeaders: 'draft-10'
  })
  const { headers } = await ask()
  t.same(
    [headers['ratelimit-policy'], headers.ratelimit],
    ['"default";q=10;w=60', '"default";r=9;t=60']
  )
})

t.test('without rateLimitHeaders, refuse leaves the headers of the host alone', async (t) => {
  const { app } = await createServer({ mark: [], quotas: { none: { perMinute: () => 0 } } })
  app.post('/call', async (request, reply) => {
    reply.raw.setHeader('RateLimit', '"of-the-host";r=1')
    const permit = await app.quotaAcquire(request, 'none')
    return permit.refuse(reply)
  })
  const { statusCode, headers } = await app.inject({ method: 'POST', url: '/call' })
  t.same([statusCode, headers.ratelimit], [429, '"of-the-host";r=1'])
})
