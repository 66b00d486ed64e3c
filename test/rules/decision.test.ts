// docs/rules.md, "Decision": a request passes if each of its quotas admits it, and is counted by
// all of them or by none.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, {
  MemoryQuotaStore,
  type Demand,
  type QuotaDefinition,
  type QuotaStore
} from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { RemoteStore } from '../support/remote-store.js'
import { createServer, fromHeader } from '../support/server.js'
import { until } from '../support/until.js'

type Quotas = Record<string, QuotaDefinition>

const failing: QuotaStore = {
  acquire () {
    throw new Error('gone')
  },
  settle () {}
}

t.test(
  'a request is subject once to every quota that lists its operation or that its mark names, ' +
    'default first, then as defined',
  async (t) => {
    const seen: unknown[] = []
    const app = Fastify()
    const chat = { method: 'POST', path: '/api/chat' }
    const quotas: Quotas = {
      z: { operations: [{ ...chat, method: 'post' }] },
      a: {},
      other: { operations: [{ ...chat, method: 'GET' }] },
      m: { operations: [chat, chat] }
    }
    await app.register(quotaPlugin, { authentication: fromHeader, operations: [chat], quotas })
    app.addHook('onSend', async (request) => {
      seen.push(
        request.quota.decisions.map(
          ({ quota, operation }) => `${quota} ${operation?.method} ${operation?.path}`
        )
      )
    })
    app.post(chat.path, { config: { quota: ['a', 'z'] } }, async () => 'ran')
    app.post('/api/*', async () => 'ran')
    for (const url of [chat.path, '/api%2fchat', '/api/other']) {
      await app.inject({ method: 'POST', url })
    }
    t.same(seen, [
      ['default POST /api/chat', 'z POST /api/chat', 'a POST /api/chat', 'm POST /api/chat'],
      ['default POST /api/chat', 'z POST /api/chat', 'm POST /api/chat'],
      []
    ])
  }
)

t.test(
  'a request that one of its quotas rejects is counted by none, in one store or in two',
  async (t) => {
    for (const other of [
      () => undefined,
      () => new MemoryQuotaStore(),
      () => new RemoteStore()
    ]) {
      const store = other()
      const names = ['default', 'hourly', 'daily', 'tokens', 'streams']
      const quotas: Quotas = {
        hourly: { perHour: 2, ...(store && { store }) },
        daily: { perDay: 5 },
        tokens: { perMinute: { tokens: 50 }, cost: 5, ...(store && { store }) },
        streams: { concurrent: 1 }
      }
      const { statuses, counts, begin, ask } = await createServer({
        mark: names,
        perMinute: 3,
        quotas
      })
      t.same(await statuses(4), [200, 200, 429, 429])
      t.same(await counts(names), [2, 2, 2, 10, 0])
      const { end } = await begin({ 'x-caller': 'bob' })
      matchExactly(t, await ask({ headers: { 'x-caller': 'bob' } }), {
        statusCode: 429,
        headers: { 'retry-after': '1' }
      })
      t.same(await counts(names, { 'x-caller': 'bob' }), [1, 1, 1, 5, 1])
      await end()
    }
  }
)

t.test('a rejected request still reaches each counter: it opens the window', async (t) => {
  const quotas: Quotas = { tight: { perMinute: 1 }, wide: { perHour: 9 } }
  const { app, begin, statuses, clock, store } = await createServer({ quotas })
  const { request } = await begin()
  store.forget('wide.requests.hour', String(request.quota.decisions[0]?.callerKey))
  clock.advance(30_000)
  t.same(await statuses(1), [429])
  t.match(await app.quotaStanding(request, 'wide'), { count: 0, windowRemaining: 3_600_000 })
})

const full = { perMinute: 1, cost: 1 }
const nobody = { authentication: () => null }
const outage = {
  authentication: () => {
    throw Object.assign(new Error('gone'), { statusCode: 503 })
  }
}
const costly: QuotaDefinition = { cost: () => -1 }

// The quotas of a request that is sent while another one of its caller runs, in their order, and
// the quota that refuses it.
const refusals: [
  what: string,
  quotas: Quotas,
  status: number,
  refusing: string,
  reason: string | null
][] = [
  ['no caller comes before a failed cost', { costly, nobody }, 401, 'nobody', 'no-authentication'],
  [
    'no caller comes before a failed authentication',
    { outage, nobody },
    401,
    'nobody',
    'no-authentication'
  ],
  ['no caller comes before a rejection', { full, nobody }, 401, 'nobody', 'no-authentication'],
  ['a failed cost comes before a rejection', { full, costly }, 503, 'costly', 'cost'],
  [
    'a failed authentication comes before a rejection',
    { full, outage },
    503,
    'outage',
    'authentication'
  ],
  [
    'concurrent requests come before a window',
    { full: { perDay: 1 }, streams: { concurrent: 1 } },
    429,
    'streams',
    null
  ],
  [
    'of two windows, the one with the longest wait',
    { full, hourly: { perHour: 1 }, another: { perMinute: 1 } },
    429,
    'hourly',
    null
  ],
  ['of equals, the first', { two: { perHour: 1 }, one: { perHour: 1 } }, 429, 'two', null],
  [
    'one that can never have room comes before any wait',
    { hourly: { perHour: 1 }, never: { perMinute: 4, cost: 5 } },
    429,
    'never',
    null
  ],
  [
    'a rejection comes before a failed store',
    { broken: { store: failing }, full },
    429,
    'full',
    null
  ],
  ['a failed store', { wide: {}, broken: { store: failing } }, 503, 'broken', 'store']
]

for (const [what, quotas, statusCode, refusing, reason] of refusals) {
  t.test(`the response to a request that several quotas refuse: ${what}`, async (t) => {
    const { app, begin, ask } = await createServer({
      mark: ({ url }) =>
        url === '/held'
          ? Object.keys(quotas).filter((name) => !/costly|nobody|outage|broken|never/.test(name))
          : Object.keys(quotas),
      quotas
    })
    await begin()
    const messages = await published(async () => {
      t.match(await ask(), { statusCode })
    })
    const outcome =
      statusCode === 401 ? 'unauthenticated' : statusCode === 429 ? 'rejected' : 'unavailable'
    matchExactly(t, messages, [{ decision: { quota: refusing, reason, outcome } }])
    const { request, decision } = messages[0] ?? {}
    t.equal(request?.quota.refusal, decision)
    t.same(request?.quota.decisions, [decision], 'it has no other decision')
    await app.close()
  })
}

t.test('what one store has counted is settled with 0 if another one fails', async (t) => {
  const quotas: Quotas = { tokens: { perDay: { tokens: 9 }, cost: 4 }, broken: { store: failing } }
  const { app, statuses, counts } = await createServer({
    mark: ['default', 'tokens', 'broken'],
    quotas
  })
  t.same(await statuses(2), [503, 503])
  t.same(await counts(['default', 'tokens']), [0, 0])
  await app.close()
})

/** A store whose acquisition of a demand is gone once it has been checked. */
function forgetfulStore (isAsynchronous: boolean): QuotaStore {
  const memory = new MemoryQuotaStore()
  const acquire = (demands: readonly Demand[]) => {
    const acquisitions = memory.acquire(demands)
    const [acquisition] = acquisitions
    let reads = 0
    Object.defineProperty(acquisitions, 0, {
      get: () => (reads++ < 2 ? acquisition : null)
    })
    return acquisitions
  }
  return {
    acquire: isAsynchronous ? async (demands) => acquire(demands) : acquire,
    settle: (receipt, less) => memory.settle(receipt, less)
  }
}

for (const isAsynchronous of [false, true]) {
  t.test(
    'a request without a decision of each enforced quota is refused, and the log says so, ' +
      `${isAsynchronous ? 'asynchronously' : 'at once'}`,
    async (t) => {
      const store = forgetfulStore(isAsynchronous)
      const { ask, log } = await createServer({ store, quotas: { calls: {} } })
      const messages = await published(async () => {
        t.equal((await ask()).statusCode, 503)
      })
      matchExactly(
        t,
        messages.map(({ decision }) => decision),
        [{ quota: 'calls', outcome: 'unavailable', reason: 'store' }]
      )
      matchExactly(t, log.problems(), [
        { level: 50, err: { message: /an enforced quota of the request has no decision/ } }
      ])
    }
  )
}

t.test('what a store counted and cannot give back is an error in the log', async (t) => {
  const store = new RemoteStore()
  const quotas: Quotas = {
    tokens: { perDay: { tokens: 9 }, cost: 4, store },
    broken: { store: failing }
  }
  const { log, ask, counts } = await createServer({ quotas })
  store.fails = 'settle'
  t.equal((await ask()).statusCode, 503)
  const lost = 'what is not used could not be given back to the quota store'
  await until('it is logged', () => log.errors().includes(lost))
  t.same(await counts(['tokens']), [4])
})

t.test(
  'a limit of 0 disables that quota alone; if all are disabled, the request passes without ' +
    'authentication',
  async (t) => {
    const preferences = new Map([['rate-limit.one.per-minute', 0]])
    const { ask } = await createServer({ preferences, quotas: { one: {}, two: {} } })
    matchExactly(t, (await ask()).json(), [
      { quota: 'one', outcome: 'disabled', limit: 0, count: null, callerKey: null },
      { quota: 'two', outcome: 'admitted' }
    ])
    t.equal((await ask({ headers: { 'x-caller': '' } })).statusCode, 401)
    preferences.set('rate-limit.two.per-minute', 0)
    matchExactly(t, (await ask({ headers: { 'x-caller': '' } })).json(), [
      { quota: 'one', outcome: 'disabled' },
      { quota: 'two', outcome: 'disabled' }
    ])
  }
)
