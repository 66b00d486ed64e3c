// docs/rules.md, "Costs": ranges, and what is granted, held and then used.
import t from 'tap'
import {
  MemoryQuotaStore,
  type QuotaDefinition,
  type QuotaPermit
} from '../../lib/index.js'
import { assertQuotaOptions } from '../../lib/start/plugin-checks.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { asAlice, createServer } from '../support/server.js'
import { virtualPerformance } from '../support/time.js'
import { until } from '../support/until.js'

type Quotas = Record<string, QuotaDefinition>

const rangeInHeader: QuotaDefinition['cost'] = ({ headers }) => {
  const [least, most] = String(headers['x-cost']).split('-').map(Number)
  return { least, most } as never
}

t.test('what is granted is held until the permit ends, and is used from then on', async (t) => {
  const quotas: Quotas = { tokens: { perMinute: { tokens: 20 }, cost: { least: 5, most: 8 } } }
  const { ask, begin, standings, store } = await createServer({ quotas })
  const stands = async (count: number, held: number): Promise<void> => {
    const remaining = 20 - count
    matchExactly(t, await standings(['tokens']), [{ count, held, remaining }])
    matchExactly(t, store.list('tokens.tokens.minute').callers, [{ count, held }])
  }
  const first = await begin()
  const second = await begin()
  matchExactly(t, first.request.quota.decisions[0], { granted: 8, count: 8, held: 8 })
  matchExactly(t, second.request.quota.decisions[0], { granted: 8, count: 16, held: 16 })
  const messages = await published(async () => {
    matchExactly(t, await ask(), { statusCode: 429, headers: { 'retry-after': '1' } })
  })
  matchExactly(t, messages, [
    { decision: { outcome: 'rejected', granted: 0, count: 16, held: 16, period: 'minute' } }
  ])
  await first.request.quota.charge(2)
  await stands(16, 16)
  await first.end()
  await stands(10, 8)
  await second.request.quota.charge(9)
  await stands(11, 0)
  const third = await begin()
  matchExactly(t, third.request.quota.decisions[0], { granted: 8, count: 19, held: 8 })
  await second.end()
  await third.end()
  await stands(19, 0)
  matchExactly(t, await ask(), { statusCode: 429, headers: { 'retry-after': '60' } })
})

t.test('requests are used when they are admitted, and nothing of them is held', async (t) => {
  for (const cost of [4, 0]) {
    const { begin, standings } = await createServer({ quotas: { batch: { perMinute: 10, cost } } })
    const { request, end } = await begin()
    matchExactly(t, request.quota.decisions[0], { granted: cost, count: cost, held: 0 })
    await end()
    matchExactly(t, await standings(['batch']), [{ count: cost, held: 0 }])
  }
})

t.test('all places that are taken are held', async (t) => {
  const { begin, standings } = await createServer({ quotas: { places: { concurrent: 3 } } })
  await begin()
  const { request } = await begin()
  matchExactly(t, request.quota.decisions[0], { granted: 1, count: 2, held: 2, period: null })
  matchExactly(t, await standings(['places']), [{ count: 2, held: 2, resetsAt: null }])
})

// What is used of a limit of 10, the range of a request, and what it is granted: null if rejected.
const grants: [used: number, cost: string, granted: number | null][] = [
  [0, '0-0', 0],
  [9, '0-0', 0],
  [10, '0-0', null],
  [0, '0-5', 5],
  [9, '0-5', 1],
  [10, '0-5', null],
  [8, '2-5', 2],
  [9, '2-5', null],
  [5, '5-5', 5],
  [6, '5-5', null],
  [0, '0-30', 10],
  [0, '11-30', null],
  [0, '10-30', 10],
  [1, '20-30', null],
  [1, '3-30', 9],
  [0, `0-${Number.MAX_SAFE_INTEGER}`, 10]
]

t.test('a request is granted as much of its range as there is room for', async (t) => {
  const quotas: Quotas = { tokens: { perMinute: { tokens: 10 }, cost: rangeInHeader } }
  const { ask, begin, counts } = await createServer({ quotas })
  for (const [used, cost, granted] of grants) {
    const what = `${cost} beside ${used}`
    const caller = { 'x-caller': what }
    const { request, end } = await begin({ ...caller, 'x-cost': '0-0' })
    await request.quota.charge(used)
    await end()
    const decisions = await published(async () => {
      const { statusCode } = await ask({ headers: { ...caller, 'x-cost': cost } })
      t.equal(statusCode, granted === null ? 429 : 200, what)
    })
    const count = used + (granted ?? 0)
    matchExactly(t, decisions, [{ decision: { granted: granted ?? 0, count } }], what)
    t.same(await counts(['tokens'], caller), [count], what)
  }
})

t.test('a request of a range counts what it was granted if nothing is reported', async (t) => {
  const tokens: QuotaDefinition = { perMinute: { tokens: 10 }, cost: { least: 1, most: 8 } }
  const { begin, standings } = await createServer({ quotas: { tokens } })
  for (const [granted, count] of [[8, 8], [2, 10]]) {
    const { request, end } = await begin()
    await end()
    matchExactly(t, request.quota.decisions[0], { granted })
    matchExactly(t, await standings(['tokens']), [{ count, held: 0 }])
  }
})

t.test('a range with the greatest limit is granted as a whole', async (t) => {
  const tokens = Number.MAX_SAFE_INTEGER
  const quotas: Quotas = { tokens: { perMinute: { tokens }, cost: { least: 1, most: tokens } } }
  const { begin, standings } = await createServer({ quotas })
  const first = await begin()
  const second = await begin()
  for (const { request } of [first, second]) {
    matchExactly(t, request.quota.decisions[0], { granted: tokens, count: tokens })
  }
  await first.end()
  matchExactly(t, await standings(['tokens']), [{ count: tokens }])
})

const notRanges: [string, unknown][] = [
  ['of requests', { least: 1, most: 2 }],
  ['the wrong way round', { least: 3, most: 2 }],
  ['below 0', { least: -1, most: 2 }],
  ['a fraction', { least: 1, most: 2.5 }],
  ['without its end', { least: 1 }],
  ['without its beginning', { most: 1 }],
  ['of texts', { least: '1', most: '2' }],
  ['a list', [1, 2]],
  [
    'a getter that throws',
    {
      least: 1,
      get most (): number {
        throw new Error('of the host')
      }
    }
  ]
]

t.test('a range that is not possible is an error, and counts nothing', async (t) => {
  const time = virtualPerformance(t)
  let cost: unknown
  const limits = { requests: 10, tokens: { tokens: 10 } }
  const quotas: Quotas = {
    requests: { perMinute: limits.requests, cost: () => cost as number },
    tokens: { perMinute: limits.tokens, cost: () => cost as number }
  }
  const { app, counts, ask, log } = await createServer({
    mark: ({ headers }) => String(headers['x-quota']),
    quotas
  })
  let what: string
  for ([what, cost] of notRanges) {
    time.advance(60_000)
    log.lines.length = 0
    const name = what === 'of requests' ? 'requests' : 'tokens'
    t.equal((await ask({ headers: { 'x-quota': name } })).statusCode, 503, what)
    matchExactly(t, log.problems(), [
      { quota: name, msg: /^the cost of the request could not be determined/ }
    ])
    const error = what.startsWith('a getter')
      ? { message: 'of the host' }
      : { code: 'FST_ERR_LLM_QUOTA_OPTION' }
    const acquired = Reflect.apply(app.quotaAcquire, app, [asAlice(), { [name]: cost }])
    await t.rejects(acquired, error, what)
    const defined = { quotas: { [name]: { perMinute: limits[name], cost } } }
    const check = () => {
      assertQuotaOptions(defined)
    }
    t.throws(check, error, what)
  }
  t.same(await counts(Object.keys(quotas)), [0, 0])
})

// Of a limit of 10 per minute: what is used, what is held, the least of a request, and how long to
// wait; null if it is admitted, `never` if it is above the limit.
const waits: [used: number, held: number, least: number, seconds: string | null][] = [
  [0, 10, 1, '1'],
  [0, 10, 10, '1'],
  [0, 10, 99, 'never'],
  [4, 0, 11, 'never'],
  [1, 9, 9, '1'],
  [1, 9, 10, '60'],
  [4, 6, 6, '1'],
  [4, 6, 7, '60'],
  [4, 5, 2, '1'],
  [4, 5, 1, null],
  [9, 1, 0, '1'],
  [10, 0, 0, '60'],
  [12, 0, 0, '60']
]

t.test(
  'a request that is rejected only because of what others hold waits for a second',
  async (t) => {
    const quotas: Quotas = { tokens: { perMinute: { tokens: 10 }, cost: rangeInHeader } }
    const { ask, begin } = await createServer({ rateLimitHeaders: 'draft-10', quotas })
    for (const [used, held, least, seconds] of waits) {
      const what = `${least} beside ${used} used and ${held} held`
      const caller = { 'x-caller': what }
      const { request, end } = await begin({ ...caller, 'x-cost': '0-0' })
      await request.quota.charge(used)
      await end()
      if (held > 0) await begin({ ...caller, 'x-cost': `${held}-${held}` })
      const { headers } = await ask({ headers: { ...caller, 'x-cost': `${least}-${least}` } })
      t.equal(headers['retry-after'] ?? null, seconds === 'never' ? null : seconds, what)
      if (seconds === '1' || seconds === '60') t.match(headers.ratelimit, `;t=${seconds}`, what)
    }
  }
)

t.test(
  'what a request holds for longer than 20 minutes counts as used, until it is settled',
  async (t) => {
    const quotas: Quotas = { tokens: { perHour: { tokens: 10 }, cost: 8 } }
    const { ask, begin, clock, standings } = await createServer({ quotas })
    const { end } = await begin()
    const rows: [gap: number, held: number, seconds: string][] = [
      [0, 8, '1'],
      [1_199_999, 8, '1'],
      [1, 0, '2400'],
      [600_000, 0, '1800']
    ]
    for (const [gap, held, seconds] of rows) {
      clock.advance(gap)
      const what = `${clock.now()} ms`
      matchExactly(t, await ask(), { statusCode: 429, headers: { 'retry-after': seconds } }, what)
      matchExactly(t, await standings(['tokens']), [{ count: 8, held }], what)
    }
    await end()
    t.equal((await ask()).statusCode, 429, 'nothing was reported, so it counts its estimate')
  }
)

t.test(
  'of several quotas that reject, one that waits for what others hold decides last',
  async (t) => {
    const hourly: QuotaDefinition = { perHour: { tokens: 10 }, cost: 10 }
    const { ask, begin } = await createServer({
      quotas: { held: hourly, requests: { perMinute: 1 } }
    })
    const { end } = await begin()
    matchExactly(t, await ask(), {
      headers: { 'retry-after': '60' },
      body: /Maximum 1 LLM requests per minute/
    })
    await end()
    matchExactly(t, await ask(), {
      headers: { 'retry-after': '3600' },
      body: /Maximum 10 LLM tokens per hour/
    })
    const both = await createServer({
      quotas: { first: { perMinute: { images: 1 }, cost: 1 }, second: hourly }
    })
    await both.begin()
    matchExactly(t, await both.ask(), {
      headers: { 'retry-after': '1' },
      body: /Maximum 1 LLM images per minute/
    })
    const concurrent = await createServer({ quotas: { tokens: hourly, places: { concurrent: 1 } } })
    await concurrent.begin()
    matchExactly(t, await concurrent.ask(), { body: /Maximum 1 concurrent LLM requests/ })
  }
)

t.test('what is used beyond a grant counts as used, and is never held', async (t) => {
  const quotas: Quotas = { tokens: { perMinute: { tokens: 20 }, cost: 5 } }
  const { begin, standings } = await createServer({ quotas })
  const { request, end } = await begin()
  await request.quota.charge(12)
  matchExactly(t, await standings(['tokens']), [{ count: 12, held: 0 }])
  await end()
  matchExactly(t, await standings(['tokens']), [{ count: 12, held: 0 }])
})

t.test('a grant is no longer held once as much is reported, while the request runs', async (t) => {
  const quotas: Quotas = { tokens: { perMinute: { tokens: 20 }, cost: 5 } }
  const { begin, standings } = await createServer({ quotas })
  const { request } = await begin()
  await request.quota.charge(4)
  matchExactly(t, await standings(['tokens']), [{ count: 5, held: 5 }])
  await request.quota.charge(1)
  matchExactly(t, await standings(['tokens']), [{ count: 5, held: 0 }])
})

t.test('granted is the least of the enforced quotas that count the unit', async (t) => {
  const quotas: Quotas = {
    minute: { perMinute: { tokens: 20 }, cost: { least: 1, most: 15 } },
    hour: { perHour: { tokens: 30 }, cost: { least: 1, most: 12 } },
    tried: { perHour: { tokens: 5 }, cost: 3, mode: 'shadow' },
    money: { perDay: { dollars: 9 }, cost: 2 },
    off: { perDay: { images: 0 }, cost: 2 }
  }
  const preferences = new Map<string, unknown>()
  const { app, begin, ask } = await createServer({ preferences, quotas })
  const granted: unknown[] = []
  app.addHook('onSend', async (request) => {
    if (request.url === '/run') granted.push(request.quota.granted('tokens'))
  })
  app.addHook('onRequest', async (request) => {
    t.equal(request.quota.granted('tokens'), null, 'before the decision')
  })
  const { request } = await begin()
  t.equal(request.quota.granted('tokens'), 12)
  t.equal(request.quota.granted('dollars'), 2)
  t.equal(request.quota.granted('images'), null, 'a disabled quota counts nothing')
  t.equal(request.quota.granted('seconds'), null, 'no quota counts them')
  t.equal((await ask()).statusCode, 200)
  preferences.set('rate-limit.minute.per-minute', 1)
  t.equal((await ask()).statusCode, 429)
  preferences.set('rate-limit.minute.per-minute', 0)
  preferences.set('rate-limit.hour.per-hour', 0)
  t.equal((await ask()).statusCode, 200)
  t.same(granted, [8, null, null])
})

t.test('quotas of one unit in two stores are granted alike, and count so in the end', async (t) => {
  const cost = { least: 1, most: 4_000 }
  const quotas: Quotas = {
    organisation: { perMonth: { tokens: 100_000 }, cost, store: new MemoryQuotaStore() },
    person: { perMinute: { tokens: 100 }, cost }
  }
  const { begin, standings } = await createServer({ quotas })
  const { request, end } = await begin()
  t.equal(request.quota.granted('tokens'), 100)
  const names = Object.keys(quotas)
  await until('the rest is given back', async () => (await standings(names))[0]?.held === 100)
  await end()
  matchExactly(t, await standings(names), [{ count: 100, held: 0 }, { count: 100, held: 0 }])
})

t.test('granted stays what the admission granted, whatever is reported', async (t) => {
  const quotas: Quotas = { tokens: { perMinute: { tokens: 20 }, cost: 12 } }
  const { begin } = await createServer({ quotas })
  const { request, end } = await begin()
  await request.quota.charge(18)
  t.equal(request.quota.granted('tokens'), 12)
  await end()
  t.equal(request.quota.granted('tokens'), 12)
})

t.test('granted omits a quota whose limit is Infinity, which counts all the same', async (t) => {
  const quotas: Quotas = {
    plan: { perMinute: { tokens: () => Infinity }, cost: { least: 1, most: 90 } },
    month: { perMonth: { tokens: 1000 }, cost: { least: 1, most: 40 } },
    images: { perDay: { images: () => Infinity }, cost: 2 }
  }
  const { begin, counts } = await createServer({ quotas })
  const { request } = await begin()
  t.equal(request.quota.granted('tokens'), 40)
  t.equal(request.quota.granted('images'), null)
  t.same(await counts(Object.keys(quotas)), [40, 40, 2])
})

t.test('a permit in a handler can have ranges, and tells what it was granted', async (t) => {
  const quotas: Quotas = {
    tokens: { perMinute: { tokens: 20 }, cost: { least: 2, most: 6 } },
    dollars: { perMinute: { dollars: 9 } },
    requests: { perMinute: 5 }
  }
  const { app, begin, counts } = await createServer({ mark: [], quotas })
  const { request } = await begin()
  const names = ['tokens', 'dollars']
  const granted = (permit: QuotaPermit): unknown[] =>
    [...names, 'requests'].map((unit) => permit.granted(unit))
  t.same(granted(await app.quotaAcquire(request, 'tokens')), [6, null, null])
  t.same(
    granted(await app.quotaAcquire(request, { tokens: { least: 1, most: 12 } })),
    [12, null, null]
  )
  const costs = { tokens: { least: 0, most: 9 }, dollars: { least: 3, most: 99 }, requests: 2 }
  t.same(granted(await app.quotaAcquire(request, costs)), [2, 9, 2])
  const refused = await app.quotaAcquire(request, costs)
  matchExactly(t, refused.refusal, { outcome: 'rejected', quota: 'tokens', granted: 0 })
  t.same(granted(refused), [null, null, null])
  t.same(await counts(names), [20, 9])
  t.equal(request.quota.granted('tokens'), null, 'the hook has no permit')
})

t.test('a range is read once, and what was checked is what counts', async (t) => {
  const changing = () => {
    let reads = 0
    return {
      least: 1,
      get most () {
        reads += 1
        return reads === 1 ? 5 : NaN
      }
    }
  }
  const defined = { least: 1, most: 5 }
  const quotas: Quotas = {
    defined: { perMinute: { tokens: 20 }, cost: defined },
    read: { perMinute: { tokens: 20 }, cost: changing }
  }
  const { app, ask, begin } = await createServer({ quotas })
  defined.most = NaN
  const { json } = await ask()
  matchExactly(t, json(), [{ granted: 5 }, { granted: 5 }])
  const { request, end } = await begin()
  const alone = await app.quotaAcquire(request, { read: changing() })
  const named = await app.quotaAcquire(request, { defined: null, read: changing() })
  matchExactly(t, alone.decisions, [{ granted: 5 }])
  matchExactly(t, named.decisions, [{ granted: 5 }, { granted: 5 }])
  await end()
})
