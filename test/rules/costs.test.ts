// docs/rules.md, "Costs" and "Settlements": what a request counts when it is admitted, while it
// runs, and in the end.
import { setImmediate as soon } from 'node:timers/promises'
import t from 'tap'
import {
  MemoryQuotaStore,
  quotaSettlements,
  type Amounts,
  type Cost,
  type OfRequest,
  type QuotaDefinition,
  type QuotaSettlement,
  type QuotaStore
} from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { RemoteStore } from '../support/remote-store.js'
import { createServer, nobody } from '../support/server.js'
import { virtualPerformance } from '../support/time.js'
import { unhandledRejections } from '../support/unhandled.js'
import { until } from '../support/until.js'

interface Costs {
  readonly cost?: Cost | OfRequest<Cost>
  readonly unreported?: number | OfRequest<number>
}

/** A server with a quota of tokens, its log, and what the quota has counted for a caller. */
async function createTokenServer (costs: Costs = {}, tokens = 100, store?: QuotaStore) {
  const host = await createServer({
    quotas: { tokens: { perMinute: { tokens }, ...costs } },
    ...(store && { store })
  })
  const counted = async () => (await host.counts(['tokens']))[0]
  return { ...host, counted }
}

const failing = () => {
  throw new Error('of the host')
}

type Step = Amounts | 'closes' | 'later' | 'beside'

// Steps of one request after its admission, each with what the window counts then: a report, the
// end of its response, the next window, or another request that counts 20.
const orders: [
  what: string,
  costs: Costs & { readonly cost?: number | OfRequest<number> },
  admitted: number,
  steps: [step: Step, count: number][]
][] = [
  ['its cost if nothing is reported', { cost: 5 }, 5, [['closes', 5]]],
  ['its cost while it runs, and then a report of less', { cost: 5 }, 5, [[3, 5], ['closes', 3]]],
  ['a report of more than its cost at once', { cost: 5 }, 5, [[8, 8], ['closes', 8]]],
  ['the sum of its reports', { cost: 5 }, 5, [[2, 5], [2, 5], [2, 6], ['closes', 6]]],
  [
    'a late report in place of its cost, and the next one in addition',
    { cost: 5 },
    5,
    [['closes', 5], [3, 3], [4, 7]]
  ],
  ['the sum of an early and a late report', { cost: 5 }, 5, [[3, 5], ['closes', 3], [4, 7]]],
  ['a report of 0, which is a report', { cost: 5 }, 5, [[0, 5], ['closes', 0]]],
  [
    'unreported after a report of null or of nothing',
    { cost: 5, unreported: 4 },
    5,
    [[null, 5], [{}, 5], ['closes', 4]]
  ],
  [
    'nothing of a report in another unit',
    { cost: 5, unreported: 4 },
    5,
    [[{ requests: 7, images: 7 }, 5], ['closes', 4]]
  ],
  [
    'its own unit of a report of several',
    { cost: 5 },
    5,
    [[{ tokens: 7, images: 9 }, 7], ['closes', 7]]
  ],
  ['unreported if nothing is reported', { unreported: 7 }, 0, [['closes', 7]]],
  ['a report and not unreported', { unreported: 7 }, 0, [[3, 3], ['closes', 3]]],
  ['a late report of 0 in place of unreported', { unreported: 7 }, 0, [['closes', 7], [0, 0]]],
  [
    'the sum of late reports in place of unreported',
    { unreported: 7 },
    0,
    [['closes', 7], [3, 3], [6, 9]]
  ],
  ['unreported where it is below the cost', { cost: 5, unreported: 2 }, 5, [['closes', 2], [4, 4]]],
  [
    'unreported where it is above the cost',
    { cost: 5, unreported: 7 },
    5,
    [['closes', 7], [4, 4], [5, 9]]
  ],
  ['nothing if unreported is 0', { cost: 5, unreported: 0 }, 5, [['closes', 0]]],
  ['its reports if it has neither cost nor unreported', {}, 0, [[4, 4], ['closes', 4]]],
  ['nothing without cost, unreported and report', {}, 0, [['closes', 0], [4, 4]]],
  [
    'what cost and unreported return for the request',
    {
      cost: ({ headers }) => Number(headers['x-cost']),
      unreported: ({ headers }) => Number(headers['x-cost']) + 1
    },
    6,
    [['closes', 7]]
  ],
  ['its cost if unreported throws', { cost: 5, unreported: failing }, 5, [['closes', 5]]],
  ['its cost if unreported is no amount', { cost: 5, unreported: () => -1 }, 5, [['closes', 5]]],
  [
    'its cost if unreported is a promise, also one that rejects',
    { cost: 5, unreported: (async () => failing()) as never },
    5,
    [['closes', 5]]
  ],
  [
    'too much in the window of its admission, and lowers no later one',
    { cost: 5 },
    5,
    [['later', 0], ['beside', 20], [3, 20], ['closes', 20]]
  ],
  [
    'what is reported beyond its cost in the window that is open then',
    { cost: 5 },
    5,
    [['later', 0], [8, 3], ['closes', 3], ['later', 0], [2, 2]]
  ],
  [
    'what unreported adds in the window that is open then',
    { cost: 5, unreported: 7 },
    5,
    [['later', 0], ['closes', 2]]
  ],
  [
    'less of what it added last, first',
    { cost: 5, unreported: 9 },
    5,
    [['later', 0], ['closes', 4], ['beside', 24], [4, 20], ['later', 0]]
  ],
  [
    'too much in the window where it was added, and lowers no later one',
    { unreported: 9 },
    0,
    [['closes', 9], ['later', 0], ['beside', 20], [3, 20]]
  ]
]

for (const [what, { cost = 0, unreported }, admitted, steps] of orders) {
  t.test(`a request counts ${what}`, async (t) => {
    const costOf: OfRequest<number> = (request) =>
      request.headers['x-beside'] === 'yes' ? 20 : typeof cost === 'number' ? cost : cost(request)
    const { begin, clock, counted, log } = await createTokenServer({
      cost: costOf,
      ...(unreported !== undefined && { unreported })
    })
    const { request, end } = await begin({ 'x-cost': '6' })
    t.equal(await counted(), admitted, 'admitted')
    for (const [step, count] of steps) {
      if (step === 'closes') await end()
      else if (step === 'later') clock.advance(60_000)
      else if (step === 'beside') await begin({ 'x-beside': 'yes' })
      else await request.quota.charge(step)
      t.equal(await counted(), count, JSON.stringify(step))
    }
    const failures = what.startsWith('its cost if unreported') ? [/^unreported failed/] : []
    matchExactly(t, log.errors(), failures, 'failures in the log')
  })
}

t.test(
  'an estimate keeps parallel requests within the limit, and a report is not bounded',
  async (t) => {
    const { begin, statuses, counted } = await createTokenServer({ cost: 4 }, 10)
    const running = [await begin(), await begin()]
    t.same(await statuses(1), [429])
    for (const { request, end } of running) {
      await request.quota.charge(1)
      await end()
    }
    t.equal(await counted(), 2)
    const { request, end } = await begin()
    await request.quota.charge(60)
    await end()
    t.equal(await counted(), 62)
  }
)

// Costs that are above the limit of 10, in requests and in tokens.
const tooMuch: [what: string, definition: QuotaDefinition][] = [
  ['a number of requests', { perMinute: 10, cost: 11 }],
  ['a function of the request', { perMinute: 10, cost: () => 100 }],
  ['an estimate of tokens', { perMinute: { tokens: 10 }, cost: 11 }],
  ['a range that begins above the limit', { perDay: { tokens: 10 }, cost: { least: 11, most: 20 } }]
]

for (const [what, definition] of tooMuch) {
  t.test(
    'a cost above the limit never has room: it is rejected without Retry-After, counts nothing, ' +
      `and is warned of once a minute for the quota: ${what}`,
    async (t) => {
      const time = virtualPerformance(t)
      const { ask, counts, log } = await createServer({
        mark: ['default', 'quota', 'other'],
        quotas: { quota: definition, other: definition },
        rateLimitHeaders: 'draft-10'
      })
      const reject = async (): Promise<void> => {
        const [message] = await published(async () => {
          matchExactly(t, await ask(), {
            statusCode: 429,
            headers: { 'retry-after': undefined, 'cache-control': 'no-store' }
          })
        })
        matchExactly(t, message?.decision, {
          outcome: 'rejected',
          quota: 'quota',
          count: 0,
          granted: 0,
          retryAfter: null
        })
      }
      const warning = {
        level: 40,
        quota: 'quota',
        limit: 10,
        msg: /^the cost of a request is above the limit of the quota.*at most once a minute$/
      }
      for (const [later, warnings] of [[0, 1], [59_999, 1], [1, 2]] as const) {
        time.advance(later)
        await reject()
        matchExactly(t, log.problems(), Array(warnings).fill(warning))
      }
      t.same(await counts(['default', 'quota', 'other']), [0, 0, 0])
    }
  )
}

t.test('the cost of a request without a caller is not determined', async (t) => {
  let calls = 0
  const cost = (): number => {
    calls += 1
    return 1
  }
  const { statuses } = await createServer({
    mark: ['default', 'batch'],
    quotas: { batch: { perMinute: 10, cost } }
  })
  t.same(await statuses(1, nobody), [401])
  t.equal(calls, 0)
  t.same(await statuses(1), [200])
  t.equal(calls, 1)
})

t.test(
  'count + max(cost, 1) <= limit admits a request; the cost of requests is settled if it is ' +
    'reported',
  async (t) => {
    const quotas: Record<string, QuotaDefinition> = {
      batch: { perMinute: 10, cost: ({ headers }) => Number(headers['x-items']) }
    }
    const { begin, statuses, counts } = await createServer({ quotas })
    const sent: [items: number, status: number, count: number][] = [
      [4, 200, 4],
      [7, 429, 4],
      [0, 200, 4],
      [6, 200, 10],
      [0, 429, 10]
    ]
    for (const [items, status, count] of sent) {
      t.same(
        [await statuses(1, { 'x-items': String(items) }), await counts(['batch'])],
        [[status], [count]],
        String(items)
      )
    }
    const { request, end } = await begin({ 'x-items': '3', 'x-caller': 'bob' })
    await request.quota.charge({ requests: 1 })
    t.same(await counts(['batch'], { 'x-caller': 'bob' }), [3], 'while it runs')
    await end()
    t.same(await counts(['batch'], { 'x-caller': 'bob' }), [1])
  }
)

const notAmounts: [string, () => unknown][] = [
  ['throws', failing],
  ...[-1, 1.5, NaN, Infinity, 2 ** 53, '5', null, undefined, 5n, {}].map(
    (value): [string, () => unknown] => [`is ${String(value)}`, () => value]
  ),
  ['is a promise of none', async () => -1],
  ['is a promise that rejects', async () => failing()]
]

t.test(
  'a cost that fails answers the request with 503, and counts nothing; a shadow quota ' +
    'refuses nothing',
  async (t) => {
    for (const mode of ['enforce', 'shadow'] as const) {
      const time = virtualPerformance(t)
      let cost: () => unknown = () => 1
      const { ask, counts, log } = await createServer({
        mark: ['default', 'batch'],
        perMinute: 100,
        quotas: { batch: Object({ perMinute: 10, cost: () => cost(), mode }) }
      })
      const isEnforced = mode === 'enforce'
      const unavailable = {
        outcome: 'unavailable',
        reason: 'cost',
        quota: 'batch',
        callerKey: /^\w{64}$/,
        count: null
      }
      const decisions = isEnforced ? [unavailable] : [{ outcome: 'admitted' }, unavailable]
      let what: string
      for ([what, cost] of notAmounts) {
        time.advance(60_000)
        const logged = log.problems().length
        const messages = await published(async () => {
          t.equal((await ask()).statusCode, isEnforced ? 503 : 200, what)
        })
        matchExactly(t, messages, decisions.map((decision) => ({ decision })), what)
        matchExactly(t, log.problems().slice(logged), [
          { quota: 'batch', msg: /^the cost of the request could not be determined/ }
        ])
      }
      t.same(await counts(['default', 'batch']), [isEnforced ? 0 : notAmounts.length, 0])
    }
  }
)

t.test('a cost can be a promise, which must settle within preferenceTimeout', async (t) => {
  const never = new Promise<number>(() => {})
  const { statuses, counts } = await createServer({
    preferenceTimeout: 20,
    quotas: {
      chat: {
        perMinute: { tokens: 50 },
        cost: ({ headers }) => (headers['x-never'] === undefined ? Promise.resolve(7) : never)
      }
    }
  })
  t.same(await statuses(1), [200])
  t.same(await counts(['chat']), [7])
  t.same(await statuses(1, { 'x-never': 'yes' }), [503])
  t.same(await counts(['chat']), [7])
})

t.test(
  'a report with an invalid amount is an error in the log, and neither throws nor counts; ' +
    'other units of it count',
  async (t) => {
    const time = virtualPerformance(t)
    const { begin, counts, log } = await createTokenServer({ unreported: 7 })
    for (const amount of [-1, 1.5, NaN, Infinity, 2 ** 53, '5', 5n, true, () => 5]) {
      time.advance(60_000)
      log.lines.length = 0
      const caller = { 'x-caller': `${typeof amount} ${amount}` }
      const { request, end } = await begin(caller)
      for (const amounts of [amount, { tokens: amount }]) {
        await t.resolves(Reflect.apply(request.quota.charge, request.quota, [amounts]))
      }
      const name = typeof amount === 'number' ? 'RangeError' : 'TypeError'
      matchExactly(t, log.problems(), [{ err: { name }, msg: /invalid amount/ }], String(amount))
      await request.quota.charge({ images: -1, tokens: 5 })
      t.same(await counts(['tokens'], caller), [5])
      await end()
      t.same(await counts(['tokens'], caller), [5])
    }
  }
)

t.test(
  'a report does nothing before the decision, for a request that was not admitted, and in ' +
    'a disabled or a full shadow quota',
  async (t) => {
    const quotas: Record<string, QuotaDefinition> = {
      enforced: { perMinute: { tokens: 10 } },
      off: { perMinute: { tokens: 0 } },
      shadow: { perMinute: { tokens: 2 }, cost: 2, mode: 'shadow' }
    }
    const names = Object.keys(quotas)
    const { app, begin, ask, counts } = await createServer({ mark: names, quotas })
    const late = new Map<unknown, () => Promise<void>>()
    app.addHook('onRequest', async (request) => {
      if (request.url === '/run') {
        late.set(request.headers['x-id'], async () => request.quota.charge(50))
      }
      await request.quota.charge(50)
    })
    app.addHook('onRequest', async (request) => {
      const { refusal, decisions } = request.quota
      t.same([refusal, decisions, request.quota.granted('tokens')], [null, [], null])
    })
    const { request, end } = await begin()
    t.same(await counts(names), [0, 0, 2])
    await (await begin()).end()
    await request.quota.charge(10)
    t.same(
      await counts(names),
      [10, 0, 10],
      'the second request has not counted in the shadow quota'
    )
    t.same(
      [
        (await ask({ headers: { 'x-id': 'full' } })).statusCode,
        (await ask({ headers: { 'x-id': 'nobody', 'x-caller': '' } })).statusCode
      ],
      [429, 401]
    )
    for (const id of ['full', 'nobody']) await late.get(id)?.()
    await end()
    t.same(await counts(names), [10, 0, 10])
  }
)

const throwingGetter = {
  get tokens (): number {
    throw new Error('of the host')
  }
}

t.test('charge never rejects, whatever it gets for amounts, and handles promises', async (t) => {
  const unhandled = unhandledRejections(t)
  const throwing = new Proxy({}, { get: failing, has: failing, ownKeys: failing })
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()
  const amounts: (() => unknown)[] = [
    ...[[], [5], new Map([['tokens', 5]]), new Set([5]), 'tokens', Symbol('x'), Object('tokens')],
    ...[throwingGetter, throwing, revoked.proxy, { then: failing }]
  ].map((value) => () => value)
  amounts.push(async () => 5)
  amounts.push(async () => failing())
  amounts.push(() => ({ tokens: Promise.reject(new Error('of the host')) }))
  const time = virtualPerformance(t)
  const { app, begin, counts, log } = await createTokenServer({ cost: 1, unreported: 7 })
  for (const [index, amountOf] of amounts.entries()) {
    time.advance(60_000)
    log.lines.length = 0
    const caller = { 'x-caller': `caller ${index}` }
    const { request, end } = await begin(caller)
    const permit = await app.quotaAcquire(request, { tokens: 0 })
    const what = `the amounts ${index}`
    await t.resolves(Reflect.apply(request.quota.charge, request.quota, [amountOf()]), what)
    await t.resolves(Reflect.apply(permit.charge, permit, [amountOf()]), what)
    const line = { level: 50, msg: /invalid amount, which is not counted/ }
    matchExactly(t, log.problems(), [line], what)
    t.same(await counts(['tokens'], caller), [1], what)
    await permit.end()
    await end()
    t.same(await counts(['tokens'], caller), [14], what)
  }
  await soon()
  t.same(unhandled, [])
})

t.test('a unit that no quota of the request counts is warned of once for each unit', async (t) => {
  const { app, begin, log } = await createServer({
    mark: 'money',
    quotas: { money: { perDay: { dollars: 10 }, unreported: 0 }, off: { perMinute: 0 } }
  })
  app.post('/free', async (request) => request.quota.charge({ requests: 0 }))
  const { request, end } = await begin()
  for (const amounts of [5, { dollars: 1, tokens: 5 }, { dolars: 1 }, { 'a@b.example': 1 }]) {
    await request.quota.charge(amounts)
    await request.quota.charge(amounts)
  }
  await end()
  await app.inject({ method: 'POST', url: '/free' })
  const units = ['the unit tokens', 'the unit dolars', 'a unit that no quota can have']
  matchExactly(
    t,
    log.problems(),
    [...units, 'the unit requests'].map((unit) => ({
      level: 40,
      msg: new RegExp(`in ${unit}, which no quota of the request counts.*not repeated`)
    }))
  )
})

t.test('a request can be given back, in the default quota too', async (t) => {
  const { begin, statuses, counts } = await createServer({ perMinute: 1 })
  const { request, end } = await begin()
  await request.quota.charge({ requests: 0 })
  t.same(await counts(['default']), [1], 'while it runs')
  t.same(await statuses(1), [429])
  await end()
  t.same(await counts(['default']), [0])
  t.same(await statuses(2), [200, 429])
  await request.quota.charge({ requests: 2 })
  t.same(await counts(['default']), [3], 'a later report counts what it adds')
})

t.test('giving a request back to a store that cannot settle is an error in the log', async (t) => {
  const memory = new MemoryQuotaStore()
  const store = { acquire: memory.acquire.bind(memory), peek: memory.peek.bind(memory) }
  const { begin, counts, log } = await createServer({ store, perMinute: 5 })
  const { request, end } = await begin()
  await request.quota.charge({ requests: 0 })
  await end()
  t.same(await counts(['default']), [1])
  const err = { message: 'the quota store has no function settle' }
  matchExactly(t, log.failures(), [{ quota: 'default', unit: 'requests', err }])
})

t.test('a request that ends without a report is warned of, once a minute', async (t) => {
  const time = virtualPerformance(t)
  const { begin, log } = await createTokenServer({ cost: 4 })
  const rows: [later: number, isReported: boolean, number][] = [
    [0, true, 0],
    [0, false, 1],
    [59_999, false, 1],
    [1, true, 1],
    [0, false, 2],
    [59_999, false, 2]
  ]
  for (const [later, isReported, count] of rows) {
    time.advance(later)
    const { request, end } = await begin()
    if (isReported) await request.quota.charge(0)
    await end()
    const warning = {
      level: 40,
      quota: 'tokens',
      unit: 'tokens',
      msg: /its tokens were not reported.*at most once a minute$/
    }
    matchExactly(t, log.problems(), Array(count).fill(warning))
  }
})

for (const [store, create] of [
  ['that answers at once', () => new MemoryQuotaStore()],
  ['on a server', () => new RemoteStore()]
] as const) {
  t.test(
    `a report just before the response is sent is one before its end, with a store ${store}`,
    async (t) => {
      let calls = 0
      const unreported = (): number => {
        calls += 1
        return 9
      }
      const costs = { cost: 4, unreported }
      const { app, log, counted } = await createTokenServer(costs, 100, create())
      const route = { config: { quota: 'tokens' }, exposeHeadRoute: false }
      app.get('/callback', route, (request, reply) => {
        setImmediate(() => {
          request.quota.charge(3)
          reply.send('ran')
        })
      })
      const url = await app.listen({ host: '127.0.0.1', port: 0 })
      t.teardown(async () => app.close())
      const messages = await published<QuotaSettlement>(async () => {
        const response = await fetch(`${url}/callback`)
        t.equal(await response.text(), 'ran')
        await until('it is settled', async () => (await counted()) === 3)
      }, quotaSettlements.name)
      matchExactly(t, messages, [{ granted: 4, used: 3, before: 0, reported: true }])
      t.equal(calls, 0, 'unreported is not called')
      t.same(log.problems(), [])
    }
  )
}

t.test('where unreported is given, a request that reports nothing is not warned of', async (t) => {
  for (const unreported of [0, 3, () => 2]) {
    const { begin, log } = await createTokenServer({ cost: 4, unreported })
    await (await begin()).end()
    t.same(log.problems(), [])
  }
})

t.test('a report made while the store decides is counted if the request is admitted', async (t) => {
  const store = new RemoteStore()
  const { app, begin, counted } = await createTokenServer({ cost: 5 }, 100, store)
  let reported: Promise<void> | undefined
  store.waits = 'acquire'
  app.addHook('onRequest', async (request) => {
    setImmediate(() => {
      reported ??= request.quota.charge(8)
      store.waits = undefined
      store.answer()
    })
  })
  const { end } = await begin()
  await reported
  t.equal(await counted(), 8)
  await end()
  t.equal(await counted(), 8)
})

t.test('a report is fulfilled when the store has counted it', async (t) => {
  const { begin, counted } = await createTokenServer({ cost: 5 }, 100, new RemoteStore())
  const { request, end } = await begin()
  await request.quota.charge(8)
  t.equal(await counted(), 8)
  await end()
  await Promise.all([request.quota.charge(3), request.quota.charge(2)])
  t.equal(await counted(), 13)
})

// What fails where 9 are reported of a request that was granted 5, what the store then counts, and
// what it counts after a later report of 3. Beyond the grant are 4.
const failures: [fails: 'acquire' | 'settle', counted: number, later: number][] = [
  ['settle', 9, 12],
  ['acquire', 5, 8]
]

for (const [fails, count, later] of failures) {
  t.test(
    'a store that fails to count what was used is an error in the log and published, and is not ' +
      `asked again: ${fails}`,
    async (t) => {
      const store = new RemoteStore()
      const { begin, counted, log } = await createTokenServer({ cost: 5 }, 100, store)
      const { request, end } = await begin()
      store.fails = fails
      const { calls } = store
      const settlements = await published<QuotaSettlement>(async () => {
        await t.resolves(request.quota.charge(9))
        t.equal(store.calls, calls + 2, 'one for what is beyond the grant, one for the grant')
        matchExactly(t, log.failures(), [
          {
            quota: 'tokens',
            unit: 'tokens',
            counters: 'tokens.tokens.minute',
            err: { message: 'gone' },
            msg: /what the request counts may be wrong/
          }
        ])
        store.fails = undefined
        await end()
      }, quotaSettlements.name)
      t.equal(store.calls, calls + 2, 'the end changes nothing')
      matchExactly(t, settlements, [{ used: 9, before: 0, failed: true }])
      t.equal(await counted(), count)
      await request.quota.charge(3)
      t.equal(await counted(), later, 'a later report counts what it adds')
    }
  )
}
