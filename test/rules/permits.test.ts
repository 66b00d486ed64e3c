// docs/rules.md, "Permits in a handler": fastify.quotaAcquire.
import t from 'tap'
import {
  MemoryQuotaStore,
  type QuotaDefinition,
  type QuotaPermit,
  type QuotaStore
} from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { createHost, fromHeader, fromOrganisation } from '../support/quota-host.js'
import { published } from '../support/service.js'

const quotas: Record<string, QuotaDefinition> = {
  messages: { perMinute: 3 },
  tokens: { perMinute: { tokens: 10 }, cost: 2 },
  sockets: { inFlight: 2 },
  off: { perHour: 0 },
  tried: { perHour: 1, mode: 'shadow' }
}

/** A service whose route without a mark belongs to no quota, with a request whose handler runs. */
async function createPermitHost (options: object = {}, mark: string | string[] = []) {
  const host = await createHost(mark, { quotas, ...options })
  return { ...host, ...(await host.begin()) }
}

const late: QuotaStore = (() => {
  const memory = new MemoryQuotaStore()
  return {
    acquire: async (demands) => {
      await new Promise(setImmediate)
      return memory.acquire(demands)
    },
    settle: async (...given) => {
      memory.settle(...given)
    },
    peek: memory.peek.bind(memory)
  }
})()

t.test(
  'a permit decides, counts and publishes as the hook does, on any route; request.quota ' +
    'stays that of the hook',
  async (t) => {
    const { app, request, counts } = await createPermitHost({}, 'default')
    const { quota, quotaDecisions } = request
    let permit: QuotaPermit | undefined
    const messages = await published(async () => {
      permit = await app.quotaAcquire(request, [
        'tried',
        'off',
        'tokens',
        'sockets',
        'messages',
        'tokens'
      ])
    })
    const operation = { method: 'POST', path: '/held' }
    matchExactly(t, permit, {
      refusal: null,
      decisions: [
        {
          quota: 'messages',
          outcome: 'admitted',
          count: 1,
          operation,
          callerKey: quota?.callerKey
        },
        { quota: 'tokens', count: 2 },
        { quota: 'sockets', count: 1 },
        { quota: 'off', outcome: 'disabled' },
        { quota: 'tried', outcome: 'admitted', enforced: false }
      ]
    })
    t.same(
      messages,
      permit?.decisions.map((decision) => ({ request, decision }))
    )
    t.same(await counts(['default', 'messages', 'tokens', 'sockets', 'tried']), [1, 1, 2, 1, 1])
    t.equal(
      (await app.quotaAcquire(request, 'tried')).refusal,
      null,
      'a shadow quota refuses nothing'
    )
    t.same([request.quota, request.quotaDecisions], [quota, quotaDecisions])
  }
)

t.test('the costs are those of the definitions unless they are given', async (t) => {
  const { app, request, counts } = await createPermitHost()
  const names = ['messages', 'tokens', 'sockets']
  await app.quotaAcquire(request, 'tokens')
  await app.quotaAcquire(request, 'tokens', 3)
  await app.quotaAcquire(request, ['tokens'], 0)
  t.same(await counts(names), [0, 5, 0])
  await app.quotaAcquire(request, names, { tokens: 1 })
  t.same(await counts(names), [1, 6, 1])
  await app.quotaAcquire(request, names, { messages: 2, tokens: 4 })
  t.same(await counts(names), [3, 10, 2])
})

t.test(
  'the promise rejects for names and costs that are not possible, and nothing is counted',
  async (t) => {
    const { app, request, counts } = await createPermitHost()
    const invalid: [names: unknown, costs: unknown, code: string, message: RegExp][] = [
      ['message', undefined, 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA', /quotaAcquire.*it got "message"/],
      [['messages', 'message'], undefined, 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA', /it got "message"/],
      [undefined, undefined, 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA', /it got undefined/],
      [[], undefined, 'FST_ERR_LLM_QUOTA_OPTION', /names must contain the name of a quota/],
      [
        ['messages', 'tokens'],
        2,
        'FST_ERR_LLM_QUOTA_OPTION',
        /costs must be an object with the cost of each quota by name; it got 2/
      ],
      [
        'sockets',
        2,
        'FST_ERR_LLM_QUOTA_OPTION',
        /costs must not be set for a quota of requests in flight/
      ],
      [
        ['tokens', 'sockets'],
        { sockets: 1 },
        'FST_ERR_LLM_QUOTA_OPTION',
        /costs.sockets must not be set for a quota of requests in flight/
      ],
      ['tokens', { messages: 1 }, 'FST_ERR_LLM_QUOTA_OPTION', /costs.messages must be for one/],
      ...[-1, 1.5, '1'].map((cost): [string, unknown, string, RegExp] => [
        'tokens',
        { tokens: cost },
        'FST_ERR_LLM_QUOTA_OPTION',
        /costs.tokens must be a safe integer of at least 0/
      ])
    ]
    for (const [names, costs, code, message] of invalid) {
      await t.rejects(
        Reflect.apply(app.quotaAcquire, app, [request, names, costs]),
        { message, code },
        String(message)
      )
    }
    t.same(await counts(['messages', 'tokens', 'sockets']), [0, 0, 0])
  }
)

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
    const { app } = await createHost('default', {
      quotas: all,
      store: memory,
      rateLimitHeaders: 'draft-10'
    })
    app.post<{ Params: { name: string } }>(
      '/call/:name',
      { config: { quota: 'default' } },
      async (request, reply) => {
        await app.quotaAcquire(
          request,
          request.params.name,
          request.params.name === 'messages' ? 3 : undefined
        )
        const permit = await app.quotaAcquire(request, request.params.name)
        return permit.refusal === null ? 'ran' : permit.refuse(reply)
      }
    )
    app.setNotFoundHandler(async (request) => (await app.quotaAcquire(request, 'off')).decisions)
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
    matchExactly(t, (await app.inject('/nowhere?a=b')).json(), [
      { outcome: 'disabled', operation: { method: 'GET', path: '*' } }
    ])
  }
)

t.test(
  'refuse uses refusalBody, and throws if there is no refusal or headers were sent',
  async (t) => {
    const { app } = await createHost([], {
      quotas,
      refusalBody: ({ quota }) => ({ contentType: 'text/plain', body: `no ${quota}` })
    })
    app.post('/call', async (request, reply) => {
      const admitted = await app.quotaAcquire(request, 'messages', 3)
      t.throws(() => admitted.refuse(reply), { name: 'TypeError', message: /there is no refusal/ })
      const refused = await app.quotaAcquire(request, 'messages')
      refused.refuse(reply)
      t.throws(() => refused.refuse(reply), {
        name: 'TypeError',
        message: /after the response began/
      })
      return reply
    })
    matchExactly(t, await app.inject({ method: 'POST', url: '/call' }), {
      statusCode: 429,
      body: 'no messages',
      headers: { 'content-type': 'text/plain' }
    })
  }
)

t.test('charge and end settle the permit alone, once; await using ends it', async (t) => {
  const { app, request, counts } = await createPermitHost({}, ['tokens', 'sockets'])
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

t.test('permits end with the response of their request, however many there are', async (t) => {
  const { app, request, end, counts } = await createPermitHost({
    quotas: { ...quotas, sockets: { inFlight: 99 } }
  })
  for (let permit = 0; permit < 50; permit++) await app.quotaAcquire(request, 'sockets')
  await (await app.quotaAcquire(request, ['sockets', 'tokens'])).charge(1)
  t.same(await counts(['sockets', 'tokens']), [51, 2])
  await end()
  t.same(await counts(['sockets', 'tokens']), [0, 1])
})

t.test('a permit whose response closes while its store is asked ends at once', async (t) => {
  const { app, request, end, counts } = await createPermitHost({
    store: late,
    authentication: () => fromHeader(Object({ headers: { 'x-caller': 'late' } }))
  })
  await app.quotaAcquire(request, 'sockets')
  const asked = app.quotaAcquire(request, 'sockets')
  await end()
  t.equal((await asked).refusal, null)
  await new Promise(setImmediate)
  t.same(await counts(['sockets']), [0])
})

t.test('a permit from before the hook lasts until it ends or the server has closed', async (t) => {
  const taken: QuotaPermit[] = []
  const { app, store, begin, counts } = await createHost([], { quotas })
  app.addHook('onRequest', async (request) => {
    if (request.url === '/held') taken.push(await app.quotaAcquire(request, 'sockets'))
  })
  const { end } = await begin()
  await end()
  await (await begin()).end()
  matchExactly(t, taken, [{ refusal: null }, { refusal: null }])
  t.same(await counts(['sockets']), [2])
  await taken[0]?.end()
  t.same(await counts(['sockets']), [1])
  await app.close()
  t.same(store.list('sockets.in-flight').callers, [])
})
