// docs/rules.md, "Costs": fastify.quotaExtend.
import t from 'tap'
import {
  localAuthentication,
  MemoryQuotaStore,
  type QuotaDefinition,
  type QuotaStore
} from '../../lib/index.js'
import { FailingStore } from '../support/failing-store.js'
import { matchExactly } from '../support/match-exactly.js'
import { createHost } from '../support/quota-host.js'
import { captureLog, published } from '../support/service.js'
import { unhandledRejections } from '../support/unhandled.js'
import { until } from '../support/until.js'

type Quotas = Record<string, QuotaDefinition>

const option = { code: 'FST_ERR_LLM_QUOTA_OPTION' }

const quotas: Quotas = {
  small: { perMinute: { tokens: 20 }, cost: 5 },
  large: { perHour: { tokens: 100 }, cost: 5 },
  money: { perDay: { dollars: 10 }, cost: 1 },
  requests: { perMinute: 9 }
}
const names = Object.keys(quotas)

t.test('an extension beside a report that is not awaited is held and granted', async (t) => {
  const { app, begin, statuses, standings } = await createHost('tokens', {
    quotas: { tokens: { perMinute: { tokens: 15 }, cost: 10 } }
  })
  const { request, end } = await begin()
  const reported = app.quotaCharge(request, 10)
  t.equal(await app.quotaExtend(request, 5), null)
  matchExactly(t, await standings(['tokens']), [{ count: 15, held: 5 }])
  t.same(await statuses(1), [429])
  await reported
  await app.quotaCharge(request, 5)
  await end()
  matchExactly(t, await standings(['tokens']), [{ count: 15, held: 0 }])
})

t.test('an extension that is granted while a report is being counted stays held', async (t) => {
  const memory = new MemoryQuotaStore()
  let count = (): void => {}
  const counting = new Promise<void>((resolve) => {
    count = resolve
  })
  const store: QuotaStore = {
    async acquire (demands) {
      const acquisitions = memory.acquire(demands)
      // What was used beyond the grant.
      if (demands[0]?.limit === Number.MAX_SAFE_INTEGER) await counting
      return acquisitions
    },
    async settle (acquisition, used) {
      memory.settle(acquisition, used)
    }
  }
  const { app } = await createHost([], {
    quotas: { tokens: { perMinute: { tokens: 30 }, cost: 10 } },
    store
  })
  const states: unknown[] = []
  const noteState = () => states.push(memory.list('tokens.tokens.minute').callers[0])
  const permit = await app.quotaAcquire(localAuthentication('alice'), 'tokens')
  const reported = permit.charge(12)
  t.equal(await permit.extend(18), null)
  noteState()
  count()
  // No turn may show room that another request could take.
  for (let turn = 0; turn < 20; turn++) {
    await null
    noteState()
  }
  await reported
  noteState()
  for (const state of states) t.match(state, { held: 28 })
  t.equal(states.length, 22)
  await permit.end()
  matchExactly(t, memory.list('tokens.tokens.minute').callers, [{ count: 12, held: 0 }])
  await app.close()
})

t.test('all quotas of a request that count the unit take more, or none does', async (t) => {
  const { app, begin, counts, standings } = await createHost(names, { quotas })
  const { request, end } = await begin()
  const { quota, quotaDecisions } = request
  const extend = async (amounts: number | Record<string, number>, refusing: string | null) => {
    const refusal = await app.quotaExtend(request, amounts)
    const quota = refusing && { outcome: 'rejected', quota: refusing, granted: 0, enforced: true }
    matchExactly(t, refusal, quota, JSON.stringify(amounts))
  }
  t.same(await counts(names), [5, 5, 1, 1])
  await extend(5, null)
  t.same(await counts(names), [10, 10, 1, 1])
  await extend(11, 'small')
  await extend({ tokens: 5, dollars: 20 }, 'money')
  await extend({ tokens: 11, dollars: 9 }, 'small')
  t.same(await counts(names), [10, 10, 1, 1], 'none has taken anything')
  await extend({ tokens: 5, dollars: 9 }, null)
  await extend({}, null)
  await extend(0, null)
  t.same(await counts(names), [15, 15, 10, 1])
  await extend({ dollars: 0 }, 'money')
  matchExactly(t, await standings(['small', 'money']), [{ held: 15 }, { held: 10 }])
  t.equal(app.quotaGranted(request, 'tokens'), 15)
  t.equal(request.quota, quota)
  t.equal(request.quotaDecisions, quotaDecisions)
  await app.quotaCharge(request, { tokens: 7, dollars: 10 })
  await end()
  t.same(await counts(names), [7, 7, 10, 1])
  matchExactly(t, await standings(['small', 'money']), [{ held: 0 }, { held: 0 }])
})

t.test('an extension that is refused resolves with the decision, which is published', async (t) => {
  const { app, begin } = await createHost(names, { quotas })
  const { request } = await begin()
  const resolved: unknown[] = []
  const messages = await published(async () => {
    for (const amount of [5, 11]) resolved.push(await app.quotaExtend(request, amount))
  })
  matchExactly(t, resolved, [null, { outcome: 'rejected', quota: 'small' }])
  matchExactly(t, messages, [{ request, decision: resolved[1] }])
})

type Step = 'closes' | 'later' | { report: number } | { extend: number }

// Steps of a request with a cost of 5, each with what is then counted and held in the open window.
const orders: [what: string, unreported: number | undefined, steps: [Step, number, number][]][] = [
  ['nothing reported', undefined, [[{ extend: 5 }, 10, 10], ['closes', 10, 0]]],
  ['unreported', 7, [[{ extend: 5 }, 10, 10], ['closes', 7, 0]]],
  [
    'a report of less',
    undefined,
    [[{ extend: 5 }, 10, 10], [{ report: 3 }, 10, 10], ['closes', 3, 0]]
  ],
  [
    'a report of all that was granted',
    undefined,
    [[{ report: 5 }, 5, 0], [{ extend: 5 }, 10, 5], [{ report: 5 }, 10, 0], ['closes', 10, 0]]
  ],
  [
    'a report of more before',
    undefined,
    [[{ report: 8 }, 8, 0], [{ extend: 5 }, 10, 5], [{ report: 4 }, 12, 0], ['closes', 12, 0]]
  ],
  [
    'a late report',
    undefined,
    [[{ extend: 5 }, 10, 10], ['closes', 10, 0], [{ report: 3 }, 3, 0], [{ report: 9 }, 12, 0]]
  ],
  [
    'in the next window, where the latest is settled with less first',
    undefined,
    [['later', 0, 0], [{ extend: 6 }, 6, 6], [{ report: 7 }, 6, 6], ['closes', 2, 0]]
  ],
  [
    'in the next window, of which nothing is used',
    undefined,
    [['later', 0, 0], [{ extend: 6 }, 6, 6], [{ report: 2 }, 6, 6], ['closes', 0, 0]]
  ]
]

for (const [what, unreported, steps] of orders) {
  t.test(`an extension counts beside what is reported: ${what}`, async (t) => {
    const tokens = { perMinute: { tokens: 20 }, cost: 5, unreported }
    const { app, begin, clock, standings } = await createHost('tokens', { quotas: { tokens } })
    const { request, end } = await begin()
    for (const [step, count, held] of steps) {
      if (step === 'closes') await end()
      else if (step === 'later') clock.advance(60_000)
      else if ('report' in step) await app.quotaCharge(request, step.report)
      else t.equal(await app.quotaExtend(request, step.extend), null)
      matchExactly(t, await standings(['tokens']), [{ count, held }], JSON.stringify(step))
    }
  })
}

t.test(
  'an extension above the limit never has room, and the limit is that of the admission',
  async (t) => {
    const preferences = new Map<string, unknown>([['rate-limit.tokens.per-minute', 20]])
    const { app, begin, counts } = await createHost('tokens', {
      preferences,
      quotas: { tokens: { perMinute: { tokens: 30 } } }
    })
    const { request } = await begin()
    preferences.set('rate-limit.tokens.per-minute', 5)
    const rejected = { outcome: 'rejected', limit: 20 }
    matchExactly(t, await app.quotaExtend(request, 21), { ...rejected, retryAfter: null })
    t.same(await counts(['tokens']), [0])
    t.equal(await app.quotaExtend(request, 20), null)
    t.same(await counts(['tokens']), [20])
    t.equal(app.quotaGranted(request, 'tokens'), 20)
    matchExactly(t, await app.quotaExtend(request, 1), { ...rejected, retryAfter: 1 })
  }
)

t.test('an extension that is not possible rejects, and nothing is counted', async (t) => {
  const { app, begin, ask, counts } = await createHost(
    ({ url }) => (url === '/marked' ? ['small', 'requests'] : names),
    { quotas: { ...quotas, requests: { perMinute: 2 } } }
  )
  const late = new Map<string, () => Promise<unknown>>()
  app.addHook('onRequest', async (request) => {
    late.set(String(request.headers['x-id']), async () => app.quotaExtend(request, 1))
  })
  app.get('/free', async (request) => {
    await t.rejects(app.quotaExtend(request, 1), { ...option, message: /admitted by a quota/ })
  })
  const { request, end } = await begin({ 'x-id': 'running' })
  const symbol = Symbol('amount')
  const wrong: unknown[] = [
    ...[-1, 1.5, NaN, Infinity, 2 ** 53],
    ...['5', 5n, true, symbol, null, undefined, () => 5],
    ...[[5], new Map([['tokens', 5]]), Promise.resolve(5)],
    ...[{ tokens: -1 }, { tokens: '5' }, { tokens: 5, dollars: 1.5 }, { tokens: undefined }],
    ...[{ images: 5 }, { tokens: 5, images: 5 }, { requests: 1 }, { 'concurrent-requests': 1 }],
    {
      get tokens (): number {
        throw new Error('of the host')
      }
    },
    new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error('of the host')
        }
      }
    )
  ]
  for (const amounts of wrong) {
    await t.rejects(Reflect.apply(app.quotaExtend, app, [request, amounts]), option)
  }
  for (const [id, status] of Object.entries({ second: 200, full: 429, nobody: 401 })) {
    const caller = id === 'nobody' ? { 'x-caller': '' } : {}
    t.equal((await ask({ headers: { 'x-id': id, ...caller } })).statusCode, status)
    await t.rejects(Promise.resolve(late.get(id)?.()), option, id)
  }
  await app.inject('/free')
  for (const value of [null, undefined, 5, {}, [], Object.freeze({ raw: {} })]) {
    await t.rejects(Reflect.apply(app.quotaExtend, app, [value, 1]), option)
  }
  await end()
  await t.rejects(app.quotaExtend(request, 1), { ...option, message: /has not ended/ })
  t.same(await counts(names), [10, 5, 1, 2])
})

t.test('a permit without anything to settle ends with the response, too', async (t) => {
  const quotas: Quotas = { off: { perDay: { tokens: 0 } } }
  const { app, begin } = await createHost('off', { quotas })
  const { request, end } = await begin()
  t.equal(await app.quotaExtend(request, 1), null)
  await end()
  await t.rejects(app.quotaExtend(request, 1), option)
})

t.test(
  "a handler's permit without anything to settle ends with the response of any route",
  async (t) => {
    const quotas: Quotas = { off: { perDay: { tokens: 0 } }, requests: { perDay: 9 } }
    for (const mark of [[], 'requests']) {
      const { app, begin } = await createHost(mark, { quotas })
      const { request, end } = await begin()
      const permit = await app.quotaAcquire(request, 'off')
      t.equal(await permit.extend(1), null)
      await end()
      await t.rejects(permit.extend(1), { ...option, message: /has not ended/ })
    }
  }
)

t.test(
  'shadow quotas take it and refuse nothing, disabled ones have room for everything',
  async (t) => {
    const all: Quotas = {
      enforced: { perMinute: { tokens: 20 }, cost: 5 },
      tried: { perMinute: { tokens: 12 }, cost: 5, mode: 'shadow' },
      full: { perMinute: { tokens: 5 }, cost: 5, mode: 'shadow' },
      off: { perMinute: { tokens: 0 } },
      only: { perMinute: { images: 0 } }
    }
    const { app, begin, counts } = await createHost(Object.keys(all), { quotas: all })
    const first = await begin()
    await first.end()
    const { request } = await begin()
    const counted = async () => counts(['enforced', 'tried', 'full', 'off'])
    t.same(await counted(), [10, 10, 5, 0])
    const messages = await published(async () => {
      t.equal(await app.quotaExtend(request, 2), null)
      t.same(await counted(), [12, 12, 5, 0])
      t.equal(await app.quotaExtend(request, { tokens: 2, images: 99 }), null)
      t.same(await counted(), [14, 12, 5, 0], 'a shadow quota without room takes nothing')
      matchExactly(t, await app.quotaExtend(request, 99), { quota: 'enforced' })
      t.same(await counted(), [14, 12, 5, 0])
    })
    matchExactly(t, messages, [{ decision: { quota: 'enforced', outcome: 'rejected' } }])
    await app.quotaCharge(request, 1)
    t.same(await counted(), [14, 12, 5, 0])
  }
)

t.test(
  'the decision with the longest wait refuses, one that waits for what others hold last',
  async (t) => {
    const all: Quotas = {
      held: { perHour: { tokens: 20 }, cost: 5 },
      used: { perMinute: { tokens: 20 }, cost: 5 }
    }
    const { app, begin } = await createHost(
      ({ url }) => (url === '/held' ? ['held', 'used'] : 'held'),
      { quotas: all }
    )
    const { request } = await begin()
    await app.quotaAcquire(request, 'held', 10)
    const used = await app.quotaAcquire(request, 'used', 10)
    await used.charge(15)
    matchExactly(t, await app.quotaExtend(request, 6), { quota: 'used', windowRemaining: 60_000 })
  }
)

t.test('a store that fails refuses, and what another one took is settled with 0', async (t) => {
  const log = captureLog()
  const failing = new FailingStore()
  const all: Quotas = {
    memory: { perMinute: { tokens: 20 }, cost: 5 },
    server: { perMinute: { tokens: 20 }, cost: 5, store: failing }
  }
  const { app, begin, counts } = await createHost(
    Object.keys(all),
    { quotas: all },
    { logger: log.logger }
  )
  const { request } = await begin()
  failing.fails = 'acquire'
  const messages = await published(async () => {
    const decision = await app.quotaExtend(request, 5)
    matchExactly(t, decision, { outcome: 'unavailable', reason: 'store', quota: 'server' })
  })
  matchExactly(t, messages, [{ decision: { outcome: 'unavailable', count: null } }])
  matchExactly(t, log.problems(), [{ msg: /store failed/, err: { message: 'gone' } }])
  t.same(await counts(['memory', 'server']), [5, 5])
  failing.fails = undefined
  t.equal(await app.quotaExtend(request, 5), null)
  t.same(await counts(['memory', 'server']), [10, 10])
  matchExactly(t, await app.quotaExtend(request, 11), { outcome: 'rejected', quota: 'memory' })
  t.same(await counts(['memory', 'server']), [10, 10])
  t.equal(app.quotaGranted(request, 'tokens'), 10)
})

t.test('a shadow quota whose store fails takes nothing, and refuses nothing', async (t) => {
  const failing = new FailingStore()
  const all: Quotas = {
    memory: { perMinute: { tokens: 20 }, cost: 5 },
    tried: { perMinute: { tokens: 20 }, cost: 5, mode: 'shadow', store: failing }
  }
  const { app, begin, counts } = await createHost(Object.keys(all), { quotas: all })
  const { request } = await begin()
  failing.fails = 'acquire'
  t.equal(await app.quotaExtend(request, 5), null)
  t.same(await counts(['memory', 'tried']), [10, 5])
})

t.test(
  'an extension whose permit ends meanwhile rejects, and what it took is settled with 0',
  async (t) => {
    const store = new FailingStore()
    const all: Quotas = { tokens: { perMinute: { tokens: 20 }, cost: 5, store } }
    const { app, begin, counts } = await createHost('tokens', { quotas: all })
    const { request, end } = await begin()
    const permit = await app.quotaAcquire(request, 'tokens', 3)
    const extending = t.rejects(permit.extend(5), { ...option, message: /has not ended/ })
    await permit.end()
    await extending
    await until('it is settled', async () => (await counts(['tokens']))[0] === 8)
    const second = t.rejects(app.quotaExtend(request, 5), { ...option, message: /has not ended/ })
    await end()
    await second
    await until('it is settled', async () => (await counts(['tokens']))[0] === 8)
  }
)

t.test('an extension rejects for its caller alone: nothing is unhandled', async (t) => {
  const unhandled = unhandledRejections(t)
  const all: Quotas = { tokens: { perMinute: { tokens: 20 }, cost: 5, store: new FailingStore() } }
  const { app } = await createHost([], { quotas: all })
  const permit = await app.quotaAcquire(localAuthentication('alice'), 'tokens')
  const extending = t.rejects(permit.extend(5), option)
  await permit.end()
  await extending
  await new Promise(setImmediate)
  t.same(unhandled, [])
})

t.test(
  'an extension that is asked for while the server closes is settled before that',
  async (t) => {
    const store = new FailingStore()
    const all: Quotas = { tokens: { perMinute: { tokens: 20 }, cost: 5, store } }
    const { app } = await createHost([], { quotas: all })
    const permit = await app.quotaAcquire(localAuthentication('alice'), 'tokens')
    const extending = t.rejects(permit.extend(7), option)
    await app.close()
    const { calls } = store
    await extending
    await new Promise(setImmediate)
    t.equal(store.calls, calls, 'the store is not called after the server has closed')
    const callerKey = String(permit.decisions[0]?.callerKey)
    const standing = await store.peek({
      counters: 'tokens.tokens.minute',
      callerKey,
      limit: 1,
      least: 0,
      most: 0,
      isEstimate: true,
      window: 60_000,
      start: null,
      end: null
    })
    matchExactly(t, standing, { count: 5, held: 0 })
  }
)

t.test('a permit in a handler extends itself alone, for an authentication, too', async (t) => {
  const store = new MemoryQuotaStore()
  const { app, begin, counts } = await createHost('small', { quotas, store })
  const { request } = await begin()
  const permit = await app.quotaAcquire(request, ['small', 'money'])
  t.equal(await permit.extend(4), null)
  t.same([permit.granted('tokens'), app.quotaGranted(request, 'tokens')], [9, 5])
  t.equal(await permit.extend({ dollars: 2 }), null)
  t.same(await counts(['small', 'money']), [14, 3])
  matchExactly(t, await permit.extend(7), { outcome: 'rejected', quota: 'small' })
  await permit.end()
  await t.rejects(permit.extend(1), option)
})

t.test('what many extensions were granted is settled at the same time', async (t) => {
  const memory = new MemoryQuotaStore()
  // How many settlements are on their way to the server together.
  let waiting = 0
  const most: number[] = []
  const store: QuotaStore = {
    acquire: (demands) => memory.acquire(demands),
    async settle (acquisition, used) {
      waiting += 1
      await new Promise(setImmediate)
      if (waiting > 0) most.push(waiting)
      waiting = 0
      memory.settle(acquisition, used)
    }
  }
  const { app } = await createHost([], {
    quotas: { tokens: { perMinute: { tokens: 99 }, cost: 1 } },
    store
  })
  const permit = await app.quotaAcquire(localAuthentication('alice'), 'tokens')
  for (let extension = 0; extension < 40; extension++) await permit.extend(2)
  await permit.charge(7)
  t.same(most, [])
  await permit.end()
  t.same(most, [41])
  matchExactly(t, memory.list('tokens.tokens.minute').callers, [{ count: 7, held: 0 }])
  await permit.charge(80)
  matchExactly(t, memory.list('tokens.tokens.minute').callers, [{ count: 87, held: 0 }])
  await app.close()
})
