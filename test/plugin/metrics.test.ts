// The metrics of fastify-llm-quota/metrics: what of requests is counted, exact to the request.
import { readFileSync } from 'node:fs'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import { Registry } from 'prom-client'
import t from 'tap'
import quotaPlugin, {
  InsuredQuotaStore,
  localAuthentication,
  MemoryQuotaStore
} from '../../lib/index.js'
import quotaMetricsPlugin from '../../lib/metrics.js'
import { VirtualClock } from '../../lib/testing.js'
import { matchExactly } from '../support/match-exactly.js'
import {
  admitted,
  chat,
  createMetricsServer,
  ofChat,
  ofDefault,
  ofStreams,
  quotas,
  scrape
} from '../support/metrics-server.js'
import { fromHeader } from '../support/server.js'
import { ToldStore } from '../support/told-store.js'
import { until } from '../support/until.js'

t.test(
  'each decision is counted by quota, unit, operation and outcome, also of concurrent requests',
  async (t) => {
    const preferences = new Map<string, number>()
    const { app, registry, ask, decisions } = await createMetricsServer(t, {
      perMinute: 2,
      preferences,
      quotas
    })
    await Promise.all([
      ask('/api/analyze', 'alice', 5),
      ask('/api/analyze', 'bob', 5),
      ask(chat.path, 'alice', 9)
    ])
    preferences.set('rate-limit.per-minute', 0)
    await ask('/api/analyze', 'alice', 4)
    t.same(await decisions(), {
      [admitted]: 4,
      'default requests POST /api/analyze rejected': 6,
      'default requests POST /api/analyze disabled': 4,
      'chat tokens POST /api/chat admitted': 7,
      'chat tokens POST /api/chat rejected': 2,
      'streams concurrent-requests POST /api/chat admitted': 7
    })
    const text = await registry.metrics()
    t.notMatch(text, /alice|[0-9a-f]{64}/, 'no label identifies a caller')
    t.equal((await app.inject('/metrics')).statusCode, 404, 'no route is added')
  }
)

t.test('the label reason is empty unless something failed, also without a caller', async (t) => {
  const { ask, decisions } = await createMetricsServer(t, { quotas })
  await ask(chat.path, '', 3)
  t.same(await decisions(), { 'chat tokens POST /api/chat unauthenticated': 3 })
})

t.test(
  'llm_quota_limit is the limit of the latest decision, and 0 once the quota is disabled',
  async (t) => {
    const preferences = new Map<string, number>()
    const { ask, scrape } = await createMetricsServer(t, { perMinute: 2, preferences, quotas })
    await ask(chat.path)
    for (const limit of [undefined, 7, 0, 5]) {
      if (limit !== undefined) preferences.set('rate-limit.per-minute', limit)
      await ask()
      matchExactly(t, await scrape(), {
        [`llm_quota_limit${ofDefault}`]: limit ?? 2,
        [`llm_quota_limit${ofChat}`]: 70,
        [`llm_quota_limit${ofStreams}`]: 9
      })
    }
  }
)

t.test(
  'llm_quota_preference_failures_total counts how often a preference was unavailable',
  async (t) => {
    const preferences = new Map([['rate-limit.per-minute', '9']])
    const { ask, scrape } = await createMetricsServer(t, { preferences })
    const failures = async () =>
      Object.entries(await scrape()).filter(([name]) => name.includes('preference_failures'))
    await ask()
    preferences.set('rate-limit.per-minute', 'many')
    await ask('/api/analyze', 'alice', 3)
    t.same(await failures(), [
      ['llm_quota_preference_failures_total{preference="rate-limit.per-minute"}', 3]
    ])
  }
)

t.test(
  'what is unavailable is counted with its reason, and a mark, a limit, a cost or a time zone ' +
    'that fails touches no limit',
  async (t) => {
    const outage = Object.assign(new Error('no directory'), { statusCode: 503 })
    const store = Object.assign(new ToldStore(new VirtualClock()), { manner: 'throws' })
    const { ask, decisions, scrape } = await createMetricsServer(t, {
      store,
      quotas: {
        batch: { operations: [chat], perMinute: { tokens: 5 }, cost: () => -1 },
        zoned: {
          operations: [{ method: 'POST', path: '/api/zoned' }],
          perDay: 5,
          timeZone: () => 'Nowhere/City'
        },
        planned: {
          operations: [{ method: 'POST', path: '/api/planned' }],
          perDay: () => {
            throw new Error('no plan')
          }
        },
        away: {
          operations: [{ method: 'POST', path: '/api/marked' }],
          authentication: () => {
            throw outage
          }
        }
      }
    })
    for (const url of ['/api/analyze', chat.path, '/api/marked', '/api/zoned', '/api/planned']) {
      t.same(await ask(url), [503], url)
    }
    t.same(await decisions(), {
      'default requests POST /api/analyze unavailable store': 1,
      'batch tokens POST /api/chat unavailable cost': 1,
      'requests POST /api/marked unavailable mark': 1,
      'zoned requests POST /api/zoned unavailable time-zone': 1,
      'planned requests POST /api/planned unavailable limit': 1
    })
    t.same(
      Object.keys(await scrape()).filter((series) => series.startsWith('llm_quota_limit')),
      [`llm_quota_limit${ofDefault}`]
    )
    const other = await createMetricsServer(t, {
      authentication: () => {
        throw outage
      },
      mode: 'shadow'
    })
    t.same(await other.ask(), [200])
    t.same(
      await other.decisions(),
      { 'default requests POST /api/analyze false unavailable authentication': 1 },
      'not enforced'
    )
  }
)

t.test(
  'a limit that is not determined for lack of a caller, or because the authentication fails, is ' +
    'not shown as 0',
  async (t) => {
    const { ask, scrape } = await createMetricsServer(t, {
      quotas: {
        planned: {
          operations: [{ method: 'POST', path: '/api/planned' }],
          perDay: () => 5,
          authentication (request: FastifyRequest) {
            if (request.headers['x-caller'] !== 'outage') return fromHeader(request)
            throw Object.assign(new Error('no directory'), { statusCode: 503 })
          }
        }
      }
    })
    const gauge = 'llm_quota_limit{quota="planned",unit="requests"}'
    t.same(await ask('/api/planned'), [200])
    t.same(await ask('/api/planned', ''), [401])
    t.match(await scrape(), { [gauge]: 5 })
    t.same(await ask('/api/planned', 'outage'), [503])
    t.match(await scrape(), { [gauge]: 5 })
  }
)

t.test('the series of a metric that an alert uses exists with 0 from the start', async (t) => {
  const store = new InsuredQuotaStore({ primary: new MemoryQuotaStore() })
  const preferences = new Map()
  const { app, ask, scrape } = await createMetricsServer(t, { quotas, store, preferences })
  await app.ready()
  const preference = 'llm_quota_preference_failures_total{preference="rate-limit'
  matchExactly(t, await scrape(), {
    'llm_quota_insured_decisions_total{store="primary"}': 0,
    'llm_quota_insured_decisions_total{store="fallback"}': 0,
    llm_quota_store_duration_seconds_count: 0,
    [`llm_quota_tracked_callers${ofDefault}`]: 0,
    [`llm_quota_overflow_decisions_total${ofDefault}`]: 0,
    [`llm_quota_overflow_decisions_total${ofChat}`]: 0,
    [`llm_quota_failed_settlements_total${ofChat}`]: 0,
    [`${preference}.per-minute"}`]: 0,
    [`${preference}.chat.per-minute"}`]: 0
  })
  // The operation of a decision is known with the first one.
  await ask()
  const series = Object.keys(await scrape())
  const used = new Set(readFileSync('docs/alerts.yml', 'utf8').match(/llm_quota_\w+/g))
  t.ok(used.size > 7)
  for (const name of used) t.ok(series.some((each) => each.startsWith(name)), name)
})

t.test('each outcome and reason of an operation starts from 0, in each mode', async (t) => {
  const registry = new Registry()
  for (const mode of ['enforce', 'shadow'] as const) {
    const { ask } = await createMetricsServer(t, { mode }, registry)
    await ask()
    const series = Object.keys(await scrape(registry)).filter((name) =>
      name.startsWith('llm_quota_decisions_total')
    )
    t.equal(series.filter((name) => name.includes(`enforced="${mode === 'enforce'}"`)).length, 11)
  }
})

t.test('the metrics have a description, a type, labels and buckets', async (t) => {
  const { registry, ask } = await createMetricsServer(t, {
    store: new InsuredQuotaStore({ primary: new MemoryQuotaStore() })
  })
  await ask()
  const lines = (await registry.metrics()).split('\n')
  const kinds = {
    counter: [
      'decisions_total',
      'overflow_decisions_total',
      'used_total',
      'failed_settlements_total',
      'preference_failures_total',
      'insured_decisions_total'
    ],
    histogram: ['store_duration_seconds', 'wait_seconds'],
    gauge: [
      'waiting',
      'limit',
      'concurrent_requests',
      'insured_primary',
      'tracked_callers',
      'sweeps',
      'max_tracked_callers'
    ]
  }
  t.same(
    lines.filter((line) => line.startsWith('# TYPE')).sort(),
    Object.entries(kinds)
      .flatMap(([kind, names]) => names.map((name) => `# TYPE llm_quota_${name} ${kind}`))
      .sort()
  )
  for (const name of ['tracked_callers', 'sweeps', 'max_tracked_callers']) {
    t.match(
      lines.find((line) => line.startsWith(`# HELP llm_quota_${name} `)),
      /use the maximum, not the sum\.$/
    )
  }
  t.same(
    lines.flatMap((line) => /duration_seconds_bucket\{le="(.*)"\}/.exec(line)?.[1] ?? []),
    ['0.00001', '0.0001', '0.001', '0.005', '0.01', '0.05', '0.1', '0.5', '+Inf']
  )
})

t.test(
  'what was used, settlements that failed, and concurrent requests are counted by quota and unit',
  async (t) => {
    const store = new MemoryQuotaStore()
    const { app, ask, scrape } = await createMetricsServer(t, { store, quotas })
    const during: unknown[] = []
    let reported: number | null = 30
    app.addHook('preHandler', async (request) => {
      await request.quota.charge(reported)
      during.push((await scrape())[`llm_quota_concurrent_requests${ofStreams}`])
    })
    const used = `llm_quota_used_total${ofChat}`
    const assertSettled = async (amount: number, failed: number) => {
      await until(`${amount} tokens are settled`, async () => (await scrape())[used] === amount)
      t.equal((await scrape())[`llm_quota_failed_settlements_total${ofChat}`], failed)
    }
    await ask(chat.path)
    await assertSettled(30, 0)
    reported = 4
    await ask(chat.path)
    await assertSettled(34, 0)
    reported = null
    await ask(chat.path)
    await assertSettled(44, 0)
    store.settle = () => {
      throw new Error('no connection')
    }
    reported = 15
    await ask(chat.path)
    await assertSettled(59, 1)
    t.same(
      [...during, (await scrape())[`llm_quota_concurrent_requests${ofStreams}`]],
      [1, 1, 1, 1, 0]
    )
  }
)

t.test(
  'a late report below what was assumed is subtracted from what is counted next, since a ' +
    'counter cannot decrease',
  async (t) => {
    const { app, ask, scrape } = await createMetricsServer(t, { quotas })
    const requests: FastifyRequest[] = []
    app.addHook('onRequest', async (request) => {
      requests.push(request)
    })
    const used = async () => (await scrape())[`llm_quota_used_total${ofChat}`]
    await ask(chat.path, 'alice', 2)
    await until('both requests are settled', async () => (await used()) === 20)
    const [first, second] = requests
    if (first === undefined || second === undefined) throw new Error('two requests were sent')
    await first.quota.charge(3)
    t.equal(await used(), 20)
    await second.quota.charge(12)
    t.equal(await used(), 20)
    await ask(chat.path)
    const ofAll = 3 + 12 + 10
    await until('the third request is settled', async () => (await used()) === ofAll)
  }
)

t.test('a late report of less in one unit is subtracted from no other', async (t) => {
  const registry = new Registry()
  const authentication = localAuthentication('alice')
  for (const [unit, late] of [
    ['tokens', 3],
    ['microdollars', 10]
  ] as const) {
    const definition = { perMinute: { [unit]: 70 }, cost: 10 }
    const { app } = await createMetricsServer(t, { quotas: { chat: definition } }, registry)
    await app.ready()
    const permit = await app.quotaAcquire(authentication, 'chat')
    await permit.end()
    await permit.charge({ [unit]: late })
  }
  matchExactly(t, await scrape(registry), {
    [`llm_quota_used_total${ofChat}`]: 10,
    'llm_quota_used_total{quota="chat",unit="microdollars"}': 10
  })
})

t.test('requests that no route serves make no series of their own', async (t) => {
  const { app, registry } = await createMetricsServer(t, {
    quotas,
    operations: [{ method: 'GET', path: '/' }]
  })
  app.setNotFoundHandler(async (request) => {
    const permit = await app.quotaAcquire(request, 'streams')
    return permit.decisions
  })
  const seriesAfter = async (url: string): Promise<string[]> => {
    const headers = { 'x-caller': 'alice' }
    await app.inject({ method: 'GET', url, headers })
    return Object.keys(await scrape(registry))
  }
  // One that is not plain is subject to the operation `/`, the others are not.
  for (const url of ['/users/mira@example.com/0', '//users/mira@example.com/0']) {
    const before = await seriesAfter(url)
    for (let sent = 1; sent < 5; sent++) {
      await app.inject({ method: 'GET', url: url.replace('0', String(sent)) })
    }
    t.same(await seriesAfter(`${url}?last`), before)
    t.notMatch(before.join(), /mira/)
    t.match(before.join(), /operation="GET \*"/)
  }
})

t.test(
  'concurrent requests are right after a reset of the registry, and with a permit for a ' +
    'request of a scope without the plugin',
  async (t) => {
    const [app, registry]: [FastifyInstance, Registry] = [Fastify(), new Registry()]
    await app.register(quotaMetricsPlugin, { registry })
    app.register(async (scope) => {
      await scope.register(quotaPlugin, { authentication: fromHeader, quotas })
      app.decorate('acquire', scope.quotaAcquire)
    })
    app.get('/', async (request) =>
      Reflect.get(app, 'acquire')(request, 'streams')
        .then(() => {
          registry.resetMetrics()
        })
        .then(() => scrape(registry))
    )
    t.match((await app.inject({ url: '/', headers: { 'x-caller': 'alice' } })).json(), {
      [`llm_quota_concurrent_requests${ofStreams}`]: 1
    })
    await app.close()
  }
)
