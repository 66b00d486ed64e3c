// docs/rules.md, "Permits in a handler": fastify.quotaAcquire.
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import { promisify } from 'node:util'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import {
  anonymousAuthentication,
  callerKey,
  localAuthentication,
  MemoryQuotaStore,
  tokenAuthentication,
  type QuotaDefinition,
  type QuotaPermit,
  type QuotaStore
} from '../../lib/index.js'
import { placeChanges, type QuotaPlaceChange } from '../../lib/channels.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { listen } from '../support/raw-socket.js'
import { RemoteStore } from '../support/remote-store.js'
import { asAlice, createServer, fromOrganisation } from '../support/server.js'
import { until } from '../support/until.js'

const quotas: Record<string, QuotaDefinition> = {
  messages: { perMinute: 3 },
  tokens: { perMinute: { tokens: 10 }, cost: 2 },
  sockets: { concurrent: 2 },
  off: { perHour: 0 },
  tried: { perHour: 1, mode: 'shadow' }
}

/** A service whose route without a mark belongs to no quota, with a request whose handler runs. */
async function createPermitServer (options: object = {}, mark: string | string[] = []) {
  const host = await createServer({ mark, quotas, ...options })
  return { ...host, ...(await host.begin()) }
}

t.test('the costs are those of the definitions unless they are given', async (t) => {
  const { app, request, counts } = await createPermitServer()
  const names = ['messages', 'tokens', 'sockets']
  await app.quotaAcquire(request, 'tokens')
  await app.quotaAcquire(request, { tokens: 3 })
  await app.quotaAcquire(request, { tokens: 0 })
  t.same(await counts(names), [0, 5, 0])
  await app.quotaAcquire(request, { messages: null, tokens: 1, sockets: null })
  t.same(await counts(names), [1, 6, 1])
  await app.quotaAcquire(request, { sockets: null, tokens: 4, messages: 2 })
  t.same(await counts(names), [3, 10, 2])
})

t.test(
  'a permit has its quotas in their order, each once, whatever the order of the names',
  async (t) => {
    const { app, request, counts } = await createPermitServer({ perMinute: 3 })
    const names = ['tokens', 'messages', 'tokens', 'default', 'messages']
    const { decisions } = await app.quotaAcquire(request, names)
    t.same(decisions.map(({ quota }) => quota), ['default', 'messages', 'tokens'])
    t.same(await counts(['default', 'messages', 'tokens']), [1, 1, 2])
    await app.quotaAcquire(request, { messages: 2, default: 2 })
    const { refusal } = await app.quotaAcquire(request, ['messages', 'default'])
    matchExactly(t, refusal, { outcome: 'rejected', quota: 'default' }, 'the first of equals')
  }
)

t.test('quotas named least and most take their costs by name, like others', async (t) => {
  const { app, request, counts } = await createPermitServer({
    quotas: { least: { perMinute: 5 }, most: { perMinute: { tokens: 9 } } }
  })
  const { decisions } = await app.quotaAcquire(request, { least: 1, most: { least: 2, most: 4 } })
  t.same(decisions.map(({ granted }) => granted), [1, 4])
  t.same(await counts(['least', 'most']), [1, 4])
})

t.test(
  'the promise rejects for quotas, costs and options that are not possible, and nothing is counted',
  async (t) => {
    const { app, request, counts } = await createPermitServer()
    const unknown = 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA'
    const option = 'FST_ERR_LLM_QUOTA_OPTION'
    const invalid: [quotas: unknown, options: unknown, code: string, message: RegExp][] = [
      ['message', {}, unknown, /quotaAcquire must name an existing quota.*it got "message"/],
      [['messages', 'message'], {}, unknown, /it got "message"/],
      [{ messages: null, message: 1 }, {}, unknown, /it got "message"/],
      [['messages', 5], {}, unknown, /it got 5/],
      [undefined, {}, option, /quotas of quotaAcquire must be a name.*it got undefined/],
      [new Map([['messages', 2]]), {}, option, /quotas of quotaAcquire must be a name/],
      [[], {}, option, /quotas of quotaAcquire must contain the name of a quota/],
      [{}, {}, option, /quotas of quotaAcquire must contain the name of a quota/],
      [{ sockets: 1 }, {}, option, /parameter quotas.sockets of quotaAcquire must be null/],
      [{ messages: { least: 1, most: 2 } }, {}, option, /quotas.messages of .* must be a number/],
      [{ tokens: { least: 2, most: 1 } }, {}, option, /quotas.tokens of .* must be a safe integer/],
      ...[-1, 1.5, '1', undefined, async () => 1].map(
        (cost): [unknown, unknown, string, RegExp] => [
          { tokens: cost },
          {},
          option,
          /quotas.tokens of quotaAcquire must be a safe integer of at least 0, or .*, or null/
        ]
      ),
      ['messages', { cost: 2 }, option, /options.cost does not exist/],
      ['messages', 2, option, /options must be a plain object/],
      ['messages', { reference: 5 }, option, /options.reference must be a string/],
      ['messages', { reference: '\0' }, option, /options.reference must be a string/],
      ['messages', { signal: {} }, option, /options.signal must be an AbortSignal/]
    ]
    for (const [quotas, options, code, message] of invalid) {
      await t.rejects(
        Reflect.apply(app.quotaAcquire, app, [request, quotas, options]),
        { message, code },
        String(message)
      )
    }
    t.same(await counts(['messages', 'tokens', 'sockets']), [0, 0, 0])
  }
)

t.test('a signal that is aborted rejects with its reason, and nothing is counted', async (t) => {
  const { app, request, counts } = await createPermitServer()
  const reason = new Error('not needed any more')
  const signal = AbortSignal.abort(reason)
  const rejected = await app.quotaAcquire(request, 'messages', { signal }).catch((error) => error)
  t.equal(rejected, reason)
  t.same(await counts(['messages']), [0])
  t.equal((await app.quotaAcquire(request, 'messages', {
    signal: new AbortController().signal
  })).refusal, null)
})

t.test('a permit refers to its request, unless a reference is given', async (t) => {
  const { app, request } = await createPermitServer()
  const job = localAuthentication('job')
  const taken = [
    await app.quotaAcquire(request, 'tokens'),
    await app.quotaAcquire(request, 'tokens', { reference: 'item 7' }),
    await app.quotaAcquire(job, 'tokens'),
    await app.quotaAcquire(job, 'tokens', { reference: 'job 9' })
  ]
  t.same(
    taken.map(({ decisions }) => decisions[0]?.reference),
    [request.id, 'item 7', null, 'job 9']
  )
})

t.test('a store gets the reference of what is for a journal, and no other', async (t) => {
  const seen: unknown[] = []
  const store = new MemoryQuotaStore()
  const acquire = store.acquire.bind(store)
  store.acquire = (demands) => {
    seen.push(...demands.map(({ counters, unit, reference }) => [counters, unit, reference]))
    return acquire(demands)
  }
  const shadow: QuotaDefinition = { perDay: { tokens: 9 }, cost: 1, mode: 'shadow' }
  const { app } = await createServer({ mark: [], quotas: { ...quotas, shadow }, store })
  const job = localAuthentication('job')
  const permit = await app.quotaAcquire(job, ['messages', 'tokens', 'sockets', 'shadow'], {
    reference: 'job 9'
  })
  await permit.charge(5)
  await app.quotaAcquire(job, 'tokens')
  t.same(seen, [
    ['messages.requests.minute', 'requests', null],
    ['tokens.tokens.minute', 'tokens', 'job 9'],
    ['sockets.concurrent', 'concurrent-requests', null],
    ['shadow.tokens.day', 'tokens', null],
    ['tokens.tokens.minute', 'tokens', 'job 9'],
    ['shadow.tokens.day', 'tokens', null],
    ['tokens.tokens.minute', 'tokens', '']
  ])
})

t.test(
  'refuse sends the refusal as the hook would, with the RateLimit headers of the permit in ' +
    'place of those of the hook',
  async (t) => {
    const memory = new MemoryQuotaStore()
    const failing: QuotaStore = {
      acquire () {
        throw new Error('gone')
      },
      settle () {}
    }
    const all: Record<string, QuotaDefinition> = {
      ...quotas,
      organisation: { authentication: fromOrganisation },
      failing: { store: failing }
    }
    const { app } = await createServer({
      mark: 'default',
      quotas: all,
      store: memory,
      rateLimitHeaders: 'draft-10'
    })
    app.post<{ Params: { name: string } }>(
      '/call/:name',
      { config: { quota: 'default' } },
      async (request, reply) => {
        const { name } = request.params
        await app.quotaAcquire(request, name === 'messages' ? { messages: 3 } : name)
        const permit = await app.quotaAcquire(request, name)
        return permit.refusal === null ? 'ran' : permit.refuse(reply)
      }
    )
    const rows: [name: string, status: number, body: RegExp, headers: object][] = [
      [
        'messages',
        429,
        /Maximum 3 LLM requests per minute/,
        {
          'retry-after': '60',
          'cache-control': 'no-store',
          ratelimit: '"messages";r=0;t=60',
          'ratelimit-policy': '"messages";q=3;w=60'
        }
      ],
      [
        'organisation',
        401,
        /Authentication is required/,
        { 'cache-control': 'no-store', ratelimit: undefined, 'ratelimit-policy': undefined }
      ],
      [
        'failing',
        503,
        /unavailable/,
        { 'retry-after': '1', 'cache-control': 'no-store', ratelimit: undefined }
      ],
      ['off', 200, /ran/, { ratelimit: /^"default";r=\d;t=60$/ }]
    ]
    const call = (name: string) => app.inject({ method: 'POST', url: `/call/${name}` })
    for (const [name, statusCode, body, headers] of rows) {
      matchExactly(t, await call(name), { statusCode, body, headers }, name)
    }
  }
)

t.test('where no route matched, the operation of a permit is *, and not the URL', async (t) => {
  const { app } = await createServer({ mark: [] })
  app.setNotFoundHandler(async (request) => {
    const permit = await app.quotaAcquire(request, 'default')
    return permit.decisions
  })
  matchExactly(t, (await app.inject('/nowhere?a=b')).json(), [
    { outcome: 'admitted', operation: { method: 'GET', path: '*' } }
  ])
})

t.test(
  'refuse uses refusalBody, and throws if there is no refusal, if headers were sent, or if the ' +
    'host has hijacked the reply',
  async (t) => {
    const { app } = await createServer({
      mark: [],
      quotas,
      refusalBody: ({ quota }) => ({ contentType: 'text/plain', body: `no ${quota}` })
    })
    app.post('/call', async (request, reply) => {
      t.throws(() => request.quota.refuse(reply), {
        name: 'TypeError',
        message: /there is no permit that could refuse the request/
      })
      const admitted = await app.quotaAcquire(request, { messages: 3 })
      t.throws(() => admitted.refuse(reply), { name: 'TypeError', message: /there is no refusal/ })
      const refused = await app.quotaAcquire(request, 'messages')
      refused.refuse(reply)
      t.throws(() => refused.refuse(reply), {
        name: 'TypeError',
        message: /after the response began/
      })
      return reply
    })
    app.post('/begun', async (request, reply) => {
      const refused = await app.quotaAcquire(request, 'messages')
      reply.raw.writeHead(200)
      reply.raw.write('begun')
      t.equal(reply.sent, false)
      t.throws(() => refused.refuse(reply), { message: /after the response began/ })
      reply.hijack()
      reply.raw.end()
    })
    app.post('/hijacked', async (request, reply) => {
      const refused = await app.quotaAcquire(request, 'messages')
      reply.hijack()
      t.equal(reply.raw.headersSent, false)
      t.throws(() => refused.refuse(reply), { message: /after the response began/ })
      reply.raw.end('hijacked')
    })
    const post = (url: string) => app.inject({ method: 'POST', url })
    matchExactly(t, await post('/call'), {
      statusCode: 429,
      body: 'no messages',
      headers: { 'content-type': 'text/plain' }
    })
    t.equal((await post('/begun')).body, 'begun')
    t.equal((await post('/hijacked')).body, 'hijacked')
  }
)

t.test("a model's usage counts tokens, and nothing in other units without fromUsage", async (t) => {
  const { app, counts } = await createServer({
    quotas: {
      calls: { perMinute: 5 },
      tokens: { perMinute: { tokens: 50 }, cost: 9 },
      images: { perMinute: { images: 50 }, cost: 3 }
    }
  })
  const permit = await app.quotaAcquire(asAlice(), ['calls', 'tokens', 'images'])
  await permit.chargeUsage({ prompt_tokens: 2, completion_tokens: 4 })
  await permit.end()
  t.same(await counts(['calls', 'tokens', 'images']), [1, 6, 3])
})

t.test('charge and end settle the permit alone, once; await using ends it', async (t) => {
  const { app, request, counts } = await createPermitServer({}, ['tokens', 'sockets'])
  const names = ['messages', 'tokens', 'sockets']
  const permit = await app.quotaAcquire(request, names)
  t.same(await counts(names), [1, 4, 2])
  await permit.charge(1)
  t.same(await counts(names), [1, 4, 2])
  await Promise.all([permit.end(), permit.end()])
  t.same(await counts(names), [1, 3, 1])
  await permit.end()
  await permit.charge({ tokens: 3 })
  t.same(await counts(names), [1, 6, 1])
  {
    await using used = await app.quotaAcquire(request, names)
    t.equal(used.refusal, null)
    t.same(await counts(names), [2, 8, 2])
  }
  t.same(await counts(names), [2, 8, 1])
})

t.test('end resolves when the store has settled, and await using waits for it', async (t) => {
  const store = new RemoteStore()
  const taken = () => store.memory.list('sockets.concurrent').callers.length
  const { app } = await createServer({ mark: [], quotas, store })
  const permit = await app.quotaAcquire(localAuthentication('alice'), 'sockets')
  t.equal(taken(), 1)
  await permit.end()
  t.equal(taken(), 0)
  {
    await using used = await app.quotaAcquire(localAuthentication('alice'), 'sockets')
    t.equal(used.refusal, null)
  }
  t.equal(taken(), 0)
})

t.test('a permit that is ended twice frees its place once', async (t) => {
  const store = new RemoteStore()
  const { app } = await createServer({ mark: [], quotas, store })
  const changes = await published<QuotaPlaceChange>(
    async () => {
      const permit = await app.quotaAcquire(localAuthentication('alice'), 'sockets')
      await Promise.all([permit.end(), permit.end()])
      await permit.end()
    },
    placeChanges.name
  )
  t.same(changes.map(({ change }) => change), [1, -1])
  t.equal(store.calls, 2, 'one acquires and one settles')
})

t.test(
  'a permit without a request that is decided while the server closes is settled',
  async (t) => {
    const store = new RemoteStore()
    store.waits = 'acquire'
    const { app } = await createServer({ mark: [], quotas, store })
    const asked = app.quotaAcquire(localAuthentication('alice'), 'sockets')
    const closed = app.close()
    await new Promise(setImmediate)
    store.answer()
    await closed
    matchExactly(t, await asked, { refusal: null })
    t.same(store.memory.list('sockets.concurrent').callers, [])
  }
)

t.test('permits end with the response of their request, however many there are', async (t) => {
  const { app, request, end, counts } = await createPermitServer({
    quotas: { ...quotas, sockets: { concurrent: 99 } }
  })
  for (let permit = 0; permit < 50; permit++) await app.quotaAcquire(request, 'sockets')
  await (await app.quotaAcquire(request, ['sockets', 'tokens'])).charge(1)
  t.same(await counts(['sockets', 'tokens']), [51, 2])
  await end()
  t.same(await counts(['sockets', 'tokens']), [0, 1])
})

t.test('a permit whose response closes while its store is asked ends at once', async (t) => {
  const { app, request, end, counts } = await createPermitServer({
    store: new RemoteStore()
  })
  await app.quotaAcquire(request, 'sockets')
  const asked = app.quotaAcquire(request, 'sockets')
  await end()
  t.equal((await asked).refusal, null)
  await until('the place is free', async () => (await counts(['sockets']))[0] === 0)
})

t.test('a permit from before the hook lasts until it ends or the server has closed', async (t) => {
  const taken: QuotaPermit[] = []
  const { app, store, begin, counts } = await createServer({ mark: [], quotas })
  app.addHook('onRequest', async (request) => {
    if (request.url !== '/held') return
    t.same(request.quota.decisions, [], 'the request has a permit of its own')
    taken.push(await app.quotaAcquire(request, 'sockets'))
  })
  const { end } = await begin()
  await end()
  await (await begin()).end()
  matchExactly(t, taken, [{ refusal: null }, { refusal: null }])
  t.same(await counts(['sockets']), [2])
  await taken[0]?.end()
  t.same(await counts(['sockets']), [1])
  await app.close()
  t.same(store.list('sockets.concurrent').callers, [])
})

t.test('an authentication in place of a request is the caller of each of the quotas', async (t) => {
  const asked: unknown[] = []
  const preferences = {
    get: (name: string, ...requests: unknown[]) => {
      asked.push([name, ...requests])
      return undefined
    }
  }
  const { app, store } = await createServer({ mark: [], quotas, preferences })
  await app.ready()
  const job = localAuthentication('job')
  const costs = { messages: 3, tokens: null, sockets: null, off: null }
  const messages = await published(async () => {
    const permit = await app.quotaAcquire(job, costs)
    matchExactly(t, permit.decisions, [
      { quota: 'messages', count: 3, operation: null, callerKey: callerKey(job) },
      { quota: 'tokens', count: 2, operation: null, callerKey: callerKey(job) },
      { quota: 'sockets', count: 1, operation: null },
      { quota: 'off', outcome: 'disabled', operation: null }
    ])
    const refused = await app.quotaAcquire(job, 'messages')
    matchExactly(t, refused.refusal, { outcome: 'rejected', operation: null })
    t.throws(() => refused.refuse(Object({})), { name: 'TypeError', message: /no response/ })
    await permit.end()
  })
  t.same(messages.map(({ request }) => request), Array(5).fill(null))
  t.same(asked[0], ['rate-limit.messages.per-minute', undefined], 'the reader gets no request')
  for (const nobody of [anonymousAuthentication(), localAuthentication(' ')]) {
    const { refusal } = await app.quotaAcquire(nobody, 'messages')
    matchExactly(t, refusal, { outcome: 'unauthenticated', callerKey: null })
  }
  const claims = {
    get iss (): string {
      throw new Error('of the host')
    }
  }
  const { refusal } = await app.quotaAcquire(tokenAuthentication(claims), 'messages')
  matchExactly(t, refusal, { outcome: 'unauthenticated', reason: 'no-authentication' })
  await app.quotaAcquire(job, ['sockets', 'tokens'])
  matchExactly(t, store.list('sockets.concurrent').callers, [{ count: 1 }])
  await app.close()
  t.same(store.list('sockets.concurrent').callers, [])
  matchExactly(t, store.list('tokens.tokens.minute').callers, [{ count: 4, held: 0 }])
})

t.test(
  'for an authentication, each cost that is a function must be given, and nothing is counted ' +
    'without one of them',
  async (t) => {
    const { app, store } = await createServer({
      mark: [],
      quotas: { ...quotas, one: { perMinute: 5, cost: () => 2 }, two: { perDay: 5, cost: () => 2 } }
    })
    const job = localAuthentication('job')
    for (const [given, missing] of [['messages', 'one'], ['one', 'two'], ['two', 'one']] as const) {
      const costs = { messages: null, one: null, two: null, [given]: 1 }
      await t.rejects(app.quotaAcquire(job, costs), {
        code: 'FST_ERR_LLM_QUOTA_OPTION',
        message: new RegExp(`quotas\\.${missing} of quotaAcquire must be given`)
      })
    }
    t.same(store.list('messages.requests.minute').callers, [])
    const permit = await app.quotaAcquire(job, { messages: null, one: 1, two: 3 })
    matchExactly(t, permit.decisions, [{ count: 1 }, { count: 1 }, { count: 3 }])
  }
)

t.test(
  'the permit of an authentication counts unreported in the end, which gets null for a request ' +
    'if it is a function',
  async (t) => {
    const tokens = { perMinute: { tokens: 50 }, cost: 3 }
    const { app, store } = await createServer({
      mark: [],
      quotas: {
        number: { ...tokens, unreported: 7 },
        function: {
          perMinute: { tokens: 50 },
          cost: 3,
          unreported: (request) => (request === null ? 8 : 1)
        }
      }
    })
    const permit = await app.quotaAcquire(localAuthentication('job'), ['number', 'function'])
    await permit.end()
    matchExactly(t, store.list('number.tokens.minute').callers, [{ count: 7, held: 0 }])
    matchExactly(t, store.list('function.tokens.minute').callers, [{ count: 8, held: 0 }])
  }
)

t.test(
  'without a request, a quota with an authentication of its own needs the callers by name',
  async (t) => {
    const all: Record<string, QuotaDefinition> = {
      ...quotas,
      organisation: { perMinute: 5, authentication: fromOrganisation }
    }
    const { app, store } = await createServer({ mark: [], quotas: all })
    const user = localAuthentication('user')
    const acme = localAuthentication('acme')
    for (const names of ['organisation', ['messages', 'organisation']]) {
      await t.rejects(app.quotaAcquire(user, names), {
        code: 'FST_ERR_LLM_QUOTA_OPTION',
        message: /source of .* must have the callers by name, such as \{ organisation: /
      })
    }
    const names = ['messages', 'organisation']
    const invalid: [source: unknown, message: RegExp][] = [
      [{ messages: user }, /source.organisation of .* must be given/],
      [{ messages: user, organisation: null }, /source.organisation of .* must be a request, an/],
      [{ messages: user, organisation: { kind: 'local' } }, /source.organisation of .* must be a/],
      [{ messages: user, organisation: acme, tokens: user }, /source.tokens of .* must be for one/]
    ]
    for (const [source, message] of invalid) {
      await t.rejects(Reflect.apply(app.quotaAcquire, app, [source, names]), {
        code: 'FST_ERR_LLM_QUOTA_OPTION',
        message
      })
    }
    t.same(store.list('messages.requests.minute').callers, [])
    const permit = await app.quotaAcquire({ messages: user, organisation: acme }, names)
    t.same(
      permit.decisions.map((decision) => decision.callerKey),
      [callerKey(user), callerKey(acme)]
    )
  }
)

t.test('anything else in place of a request is an error, and nothing is counted', async (t) => {
  const { app, store } = await createPermitServer()
  for (const value of [null, undefined, 5, 'x', [], () => {}, new Map()]) {
    await t.rejects(Reflect.apply(app.quotaAcquire, app, [value, 'messages']), {
      code: 'FST_ERR_LLM_QUOTA_OPTION',
      message: /parameter source of quotaAcquire must be a request, an authentication/
    })
  }
  t.same(store.list('messages.requests.minute').callers, [])
})

t.test(
  'a request that nothing can be kept with can have a permit, which ends with the server',
  async (t) => {
    const { app, store } = await createServer({ mark: [], quotas, authentication: asAlice })
    const bare = Object.freeze({ raw: {}, method: 'GET', url: '/', id: '1', log: app.log })
    const permit = await app.quotaAcquire(bare, ['messages', 'sockets'])
    matchExactly(t, permit.decisions, [
      { outcome: 'admitted', operation: { method: 'GET', path: '*' } },
      { outcome: 'admitted' }
    ])
    const nobody = await createServer({ mark: [], quotas, authentication: () => null })
    const refused = await nobody.app.quotaAcquire(bare, 'messages')
    matchExactly(t, refused.refusal, { outcome: 'unauthenticated' })
    matchExactly(t, store.list('sockets.concurrent').callers, [{ count: 1 }])
    await app.close()
    t.same(store.list('sockets.concurrent').callers, [])
  }
)

for (const http2 of [false, true]) {
  t.test(
    `a permit of a request whose client has left ends at once, over HTTP/${http2 ? 2 : 1}`,
    async (t) => {
      const state = { waiting: 0, acquired: 0, refused: 0 }
      let goOn = (): void => {}
      const haveLeft = new Promise<void>((resolve) => {
        goOn = resolve
      })
      const { app, store } = await createServer({
        mark: [],
        fastify: Object({ http2, forceCloseConnections: true }),
        quotas: { places: { concurrent: 4 }, tokens: { perMinute: { tokens: 900 }, cost: 3 } },
        // Where the client leaves: Fastify then still runs the handler.
        before: (app) =>
          app.addHook('preValidation', async ({ headers }) => {
            state.waiting += 1
            if (headers['x-leaves'] === 'hook') await haveLeft
          }),
        async handler (request) {
          if (request.headers['x-leaves'] === 'handler') await haveLeft
          const permit = await app.quotaAcquire(request, ['places', 'tokens'])
          state.acquired += 1
          if (permit.refusal !== null) state.refused += 1
          await permit.charge(1)
        }
      })
      t.teardown(() => app.close())
      const port = await listen(app)
      const send = http2 ? openHttp2(port) : sendHttp1.bind(undefined, port)
      const leave = ['hook', 'hook', 'handler', 'handler'].map((place) => send(place))
      await until('all requests wait', () => state.waiting === 4)
      for (const leaveNow of leave) leaveNow()
      await until('the server has closed all connections', () => hasNoConnections(app))
      goOn()
      await until('all permits were taken', () => state.acquired === 4)
      await until('all places are free', () => store.list('places.concurrent').callers.length === 0)
      matchExactly(t, store.list('tokens.tokens.minute').callers, [{ count: 4, held: 0 }])
      t.equal(state.refused, 0)
    }
  )
}

/** Returns whether a server has no connections. */
async function hasNoConnections ({ server }: FastifyInstance): Promise<boolean> {
  return (await promisify(server.getConnections.bind(server))()) === 0
}

/** Sends a request that says where it leaves, and returns a function that does so. */
function sendHttp1 (port: number, place: string): () => void {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  const headers = `Host: h\r\nX-Leaves: ${place}\r\nContent-Length: 0`
  socket.write(`POST /run HTTP/1.1\r\n${headers}\r\n\r\n`)
  return () => {
    socket.resetAndDestroy()
  }
}

/** Opens a session, and returns a function that does the same with a stream of it. */
function openHttp2 (port: number): (place: string) => () => void {
  const session = connectHttp2(`http://127.0.0.1:${port}`).on('error', () => {})
  return (place) => {
    const headers = { ':method': 'POST', ':path': '/run', 'x-leaves': place }
    session.request(headers).on('error', () => {}).end()
    return () => {
      session.destroy()
    }
  }
}
