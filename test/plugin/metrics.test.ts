// The metrics of fastify-llm-quota/metrics: exact to the request, with several quotas, and with
// several servers in a process.
import { readFileSync } from 'node:fs'
import { mock } from 'node:test'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import { AggregatorRegistry, Gauge, register, Registry } from 'prom-client'
import tooOld from 'prom-client-too-old'
import t, { type Test } from 'tap'
import quotaPlugin, {
  InsuredQuotaStore,
  localAuthentication,
  MemoryQuotaStore,
  quotaDecisions,
  quotaSettlements,
  ShardedQuotaStore,
  type QuotaOptions,
  type QuotaStore
} from '../../lib/index.js'
import { placeChanges, preferenceFailures, storeDurations } from '../../lib/channels.js'
import quotaMetricsPlugin, { type QuotaMetricsRegistry } from '../../lib/metrics.js'
import { VirtualClock } from '../../lib/testing.js'
import { demand } from '../support/demands.js'
import { matchExactly } from '../support/match-exactly.js'
import { fromHeader } from '../support/server.js'
import { virtualPerformance } from '../support/time.js'
import { ToldStore } from '../support/told-store.js'
import { until } from '../support/until.js'

const ofDefault = '{quota="default",unit="requests"}'
const ofChat = '{quota="chat",unit="tokens"}'
const ofStreams = '{quota="streams",unit="concurrent-requests"}'
const admitted = 'default requests POST /api/analyze admitted'
const chat = { method: 'POST', path: '/api/chat' }
const quotas: QuotaOptions['quotas'] = {
  chat: { operations: [chat], perMinute: { tokens: 70 }, cost: 10 },
  streams: { operations: [chat], concurrent: 9 }
}

/** A server with the quota and its metrics. Callers are identified by a header. */
async function createServer (
  t: Test,
  options: QuotaOptions = {},
  registry: Registry = new Registry()
) {
  const app: FastifyInstance = Fastify()
  t.teardown(() => app.close())
  await app.register(quotaPlugin, { authentication: fromHeader, ...options })
  await app.register(quotaMetricsPlugin, { registry })
  for (const url of ['/api/analyze', chat.path, '/api/zoned', '/api/planned']) {
    app.post(url, async () => 'ran')
  }
  app.post('/api/marked', { config: { quota: () => 'nothing' } }, async () => 'ran')
  const ask = async (url = '/api/analyze', caller = 'alice', count = 1): Promise<number[]> => {
    const statuses = []
    for (let request = 0; request < count; request++) {
      statuses.push(
        (await app.inject({ method: 'POST', url, headers: { 'x-caller': caller } })).statusCode
      )
    }
    return statuses
  }
  return {
    app,
    registry,
    ask,
    close: () => app.close(),
    decisions: () => decisionsIn(registry),
    scrape: () => scrape(registry)
  }
}

/** Returns the value of each series in a scrape. */
async function scrape (registry: QuotaMetricsRegistry): Promise<Record<string, number>> {
  const text = await registry.metrics()
  return Object.fromEntries(
    [...text.matchAll(/^([a-z]\S*(?:\{[^}]*\})?) (\S+)$/gm)].map(([, series = '', value]) => [
      series,
      Number(value)
    ])
  )
}

/**
 * Returns the counts above 0 of decisions, by quota, unit, operation, `false` if they are not
 * enforced, outcome and reason.
 */
async function decisionsIn (registry: QuotaMetricsRegistry): Promise<Record<string, number>> {
  const series = Object.entries(await scrape(registry)).filter(
    ([name, value]) => name.startsWith('llm_quota_decisions_total') && value > 0
  )
  return Object.fromEntries(
    series.map(([name, value]) => [
      [...name.matchAll(/="([^"]*)"/g)]
        .map(([, label]) => label)
        .filter((label) => label !== '' && label !== 'true')
        .join(' '),
      value
    ])
  )
}

t.test(
  'each decision is counted by quota, unit, operation and outcome, also of concurrent requests',
  async (t) => {
    const preferences = new Map<string, number>()
    const { app, registry, ask, decisions } = await createServer(t, {
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
  const { ask, decisions } = await createServer(t, { quotas })
  await ask(chat.path, '', 3)
  t.same(await decisions(), { 'chat tokens POST /api/chat unauthenticated': 3 })
})

t.test(
  'llm_quota_limit is the limit of the latest decision, and 0 once the quota is disabled',
  async (t) => {
    const preferences = new Map<string, number>()
    const { ask, scrape } = await createServer(t, { perMinute: 2, preferences, quotas })
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
    const { ask, scrape } = await createServer(t, { preferences })
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
    const { ask, decisions, scrape } = await createServer(t, {
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
    const other = await createServer(t, {
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
    const { ask, scrape } = await createServer(t, {
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
  const { app, ask, scrape } = await createServer(t, { quotas, store, preferences })
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
    const { ask } = await createServer(t, { mode }, registry)
    await ask()
    const series = Object.keys(await scrape(registry)).filter((name) =>
      name.startsWith('llm_quota_decisions_total')
    )
    t.equal(series.filter((name) => name.includes(`enforced="${mode === 'enforce'}"`)).length, 11)
  }
})

t.test('the metrics have a description, a type, labels and buckets', async (t) => {
  const { registry, ask } = await createServer(t, {
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
  'the metrics of several processes are aggregated: counts add up, gauges of stores do ' +
    'not, the highest limit is used, and one fallback is visible',
  async (t) => {
    const failing = Object.assign(new ToldStore(new VirtualClock()), { manner: 'throws' })
    const processes: [number, QuotaStore][] = [
      [5, new MemoryQuotaStore()],
      [7, failing],
      [6, new MemoryQuotaStore()]
    ]
    const servers = await Promise.all(
      processes.map(([perMinute, primary]) =>
        createServer(t, { perMinute, store: new InsuredQuotaStore({ primary }) })
      )
    )
    for (const { ask } of servers) await ask()
    const together = AggregatorRegistry.aggregate(
      await Promise.all(servers.map(({ registry }) => registry.getMetricsAsJSON()))
    )
    const answers = {
      'llm_quota_insured_decisions_total{store="primary"}': 2,
      'llm_quota_insured_decisions_total{store="fallback"}': 1,
      llm_quota_insured_primary: 0
    }
    matchExactly(t, await scrape(together), {
      [`llm_quota_limit${ofDefault}`]: 7,
      [`llm_quota_tracked_callers${ofDefault}`]: 1,
      ...answers
    })
    t.same(await decisionsIn(together), { [admitted]: 3 })
  }
)

t.test(
  'servers are counted in their own registry, or together in one, until they close',
  async (t) => {
    const shared = new Registry()
    const [one, other, third] = [
      await createServer(t, {}, shared),
      await createServer(t, {}, shared),
      await createServer(t)
    ]
    for (const { ask } of [one, other, third]) {
      for (const caller of ['alice', 'bob']) await ask('/api/analyze', caller)
    }
    t.same(
      [await decisionsIn(shared), await third.decisions()],
      [{ [admitted]: 4 }, { [admitted]: 2 }]
    )
    for (const { close } of [one, other]) await close()
    t.notOk(
      `llm_quota_tracked_callers${ofDefault}` in (await scrape(shared)),
      'a closed server has no store'
    )
    await third.ask()
    t.same(
      await third.decisions(),
      { [admitted]: 3 },
      'a server that closes does not affect another one'
    )
    await third.close()
    const channels = [
      quotaDecisions,
      quotaSettlements,
      placeChanges,
      preferenceFailures,
      storeDurations
    ]
    for (const { hasSubscribers } of channels) {
      t.notOk(hasSubscribers, 'nothing listens to closed servers')
    }
    await (await createServer(t, {}, shared)).ask()
    t.same(
      await decisionsIn(shared),
      { [admitted]: 5 },
      'a server that starts later continues the counts'
    )
    shared.clear()
    await (await createServer(t, {}, shared)).ask()
    t.same(
      await decisionsIn(shared),
      { [admitted]: 1 },
      'a registry that the host has cleared gets the metrics again'
    )
  }
)

t.test(
  'the metrics plugin can be registered before the quota, outside its scopes, and again ' +
    'for another registry',
  async (t) => {
    const [registry, another] = [new Registry(), new Registry()]
    const app: FastifyInstance = Fastify()
    t.teardown(() => app.close())
    for (const each of [registry, registry, another]) {
      await app.register(async (scope) => {
        await scope.register(quotaMetricsPlugin, { registry: each, prefix: '/x', logLevel: 'warn' })
      })
    }
    for (const prefix of ['/one', '/other']) {
      await app.register(
        async (scope) => {
          await scope.register(quotaPlugin, { authentication: () => localAuthentication('alice') })
          scope.post('/api/analyze', async () => 'ran')
        },
        { prefix }
      )
    }
    for (const url of ['/one/api/analyze', '/other/api/analyze']) {
      t.equal((await app.inject({ method: 'POST', url })).statusCode, 200)
    }
    const ofBoth = {
      'default requests POST /one/api/analyze admitted': 1,
      'default requests POST /other/api/analyze admitted': 1
    }
    t.same(
      [await decisionsIn(registry), await decisionsIn(another)],
      [ofBoth, ofBoth],
      'no decision is counted twice'
    )
    t.match(
      await scrape(registry),
      { [`llm_quota_tracked_callers${ofDefault}`]: 1 },
      'each scope has a store of its own'
    )
  }
)

t.test(
  'the metrics contain the decisions by the overflow counter, the tracked callers and the sweeps',
  async (t) => {
    const clock = new VirtualClock()
    const { app, ask, scrape } = await createServer(t, {
      quotas,
      store: new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers: 2 })
    })
    await app.ready()
    const series = (tracked: number, sweeps: number) => ({
      [`llm_quota_tracked_callers${ofDefault}`]: tracked,
      [`llm_quota_sweeps${ofDefault}`]: sweeps,
      [`llm_quota_max_tracked_callers${ofDefault}`]: 2,
      [`llm_quota_tracked_callers${ofChat}`]: 0
    })
    matchExactly(t, await scrape(), series(0, 0))
    for (const caller of ['alice', 'bob', 'carol', 'dave', 'alice']) {
      await ask('/api/analyze', caller)
    }
    matchExactly(t, await scrape(), {
      [`llm_quota_overflow_decisions_total${ofDefault}`]: 2,
      ...series(2, 0)
    })
    clock.advance(120_000)
    await ask('/api/analyze', 'carol')
    matchExactly(t, await scrape(), {
      [`llm_quota_overflow_decisions_total${ofDefault}`]: 2,
      ...series(1, 1)
    })
    t.notOk(
      Object.keys(await scrape()).some(
        (name) => /tracked|sweeps/.test(name) && name.includes('streams')
      ),
      'a quota of concurrent requests tracks no callers'
    )
  }
)

t.test(
  'llm_quota_insured_primary is the share of the insured stores that are on their primary, and ' +
    'absent if no store is insured',
  async (t) => {
    const plain = await createServer(t)
    await plain.ask()
    t.notOk('llm_quota_insured_primary' in (await plain.scrape()))
    const primaries = [1, 2, 3, 4].map(() => new ToldStore(new VirtualClock()))
    const shards = primaries.map((primary) => new InsuredQuotaStore({ primary }))
    const { app, registry, scrape } = await createServer(t, {
      store: new ShardedQuotaStore(shards)
    })
    await app.ready()
    t.match(await scrape(), { llm_quota_insured_primary: 1 })
    if (primaries[2] !== undefined) primaries[2].manner = 'throws'
    for (const calls of [1, 2]) {
      for (const shard of shards) await shard.acquire([demand('alice')])
      t.match(await scrape(), {
        llm_quota_insured_primary: 0.75,
        'llm_quota_insured_decisions_total{store="primary"}': 3 * calls,
        'llm_quota_insured_decisions_total{store="fallback"}': calls
      })
    }
    const store = new InsuredQuotaStore({ primary: new MemoryQuotaStore() })
    const another = await createServer(t, { store }, registry)
    await another.app.ready()
    t.match(await scrape(), { llm_quota_insured_primary: 0.8 }, 'of all servers')
  }
)

t.test(
  'of an insured store, the caller cap and the tracked callers are those of its primary, and the ' +
    'latter are absent while it fails',
  async (t) => {
    const primary = Object.assign(new ToldStore(new VirtualClock()), { maxTrackedCallers: 3 })
    const fallback = new MemoryQuotaStore({ maxTrackedCallers: 2 })
    const store = new InsuredQuotaStore({ primary, fallback })
    const { app, ask, scrape } = await createServer(t, { store })
    await app.ready()
    const cap = { [`llm_quota_max_tracked_callers${ofDefault}`]: 3 }
    const tracked = `llm_quota_tracked_callers${ofDefault}`
    t.match(await scrape(), { ...cap, [tracked]: 77 })
    primary.manner = 'throws'
    await ask()
    const failing = await scrape()
    t.match(failing, cap)
    t.notOk(tracked in failing)
  }
)

t.test(
  'what was used, settlements that failed, and concurrent requests are counted by quota and unit',
  async (t) => {
    const store = new MemoryQuotaStore()
    const { app, ask, scrape } = await createServer(t, { store, quotas })
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
    const { app, ask, scrape } = await createServer(t, { quotas })
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

t.test('permits without a request are counted by their own server, for no operation', async (t) => {
  const own = await createServer(t, { quotas })
  const other = await createServer(t, { quotas })
  await Promise.all([own.app.ready(), other.app.ready()])
  const permit = await own.app.quotaAcquire(localAuthentication('alice'), ['chat', 'streams'])
  const place = `llm_quota_concurrent_requests${ofStreams}`
  t.same([(await own.scrape())[place], (await other.scrape())[place]], [1, undefined])
  await permit.charge(25)
  await permit.end()
  const used = `llm_quota_used_total${ofChat}`
  t.same([(await own.scrape())[used], (await other.scrape())[used]], [25, 0])
  t.equal((await own.scrape())[place], 0)
  t.same(await own.decisions(), {
    'chat tokens admitted': 1,
    'streams concurrent-requests admitted': 1
  })
  t.same(await other.decisions(), {})
})

t.test(
  'of servers with one registry, places add up, and the fullest store of a quota and unit is shown',
  async (t) => {
    const registry = new Registry()
    for (const [unit, callers] of [
      ['tokens', ['alice']],
      ['tokens', ['alice', 'bob']],
      ['tokens', []],
      ['microdollars', ['alice']]
    ] as const) {
      const definition = { operations: [chat], perMinute: { [unit]: 5 }, cost: 1 }
      const own = { chat: definition, streams: { concurrent: 9 } }
      const { app, ask } = await createServer(t, { quotas: own }, registry)
      for (const caller of callers) await ask(chat.path, caller)
      await app.ready()
      await app.quotaAcquire(localAuthentication('alice'), 'streams')
    }
    matchExactly(t, await scrape(registry), {
      [`llm_quota_tracked_callers${ofChat}`]: 2,
      'llm_quota_tracked_callers{quota="chat",unit="microdollars"}': 1,
      [`llm_quota_concurrent_requests${ofStreams}`]: 4
    })
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
    const { app } = await createServer(t, { quotas: { chat: definition } }, registry)
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

t.test('permits for a request of another framework are counted, and end no process', async (t) => {
  const { app, decisions, scrape } = await createServer(t, {
    quotas,
    authentication: () => localAuthentication('alice'),
    preferences: {
      get: () => {
        throw new Error('gone')
      }
    }
  })
  await app.ready()
  const given = { raw: {}, method: 'GET', url: '/', id: '1', log: app.log, headers: {} }
  for (const request of [given, { ...given, server: {} }]) {
    const permit = await app.quotaAcquire(request, ['chat', 'streams'])
    t.equal((await scrape())[`llm_quota_concurrent_requests${ofStreams}`], 1)
    await permit.charge(4)
    await permit.end()
  }
  t.same(await decisions(), {
    'chat tokens GET * admitted': 2,
    'streams concurrent-requests GET * admitted': 2
  })
  matchExactly(t, await scrape(), {
    [`llm_quota_used_total${ofChat}`]: 8,
    [`llm_quota_concurrent_requests${ofStreams}`]: 0
  })
})

t.test('requests that no route serves make no series of their own', async (t) => {
  const { app, registry } = await createServer(t, {
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

t.test(
  'a store that fails or is invalid has no number of tracked callers; other metrics are not ' +
    'affected',
  async (t) => {
    const tracked = `llm_quota_tracked_callers${ofDefault}`
    for (const manner of ['throws', 'rejects', 'answers nonsense', 'promises nonsense'] as const) {
      const store = new ToldStore(new VirtualClock())
      const { ask, scrape } = await createServer(t, { store })
      await ask()
      t.match(await scrape(), { [tracked]: 77 })
      store.manner = manner
      const values = await scrape()
      t.notOk(
        tracked in values || `llm_quota_sweeps${ofDefault}` in values,
        `${manner}: no value is reported that could be wrong`
      )
      t.match(values, {
        llm_quota_store_duration_seconds_count: 1,
        [`llm_quota_limit${ofDefault}`]: 10
      })
    }
  }
)

t.test('a collection waits half a second at most for a store', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  const store = Object.assign(new ToldStore(new VirtualClock()), { manner: 'hangs' })
  const { app, registry } = await createServer(t, { store })
  await app.ready()
  let isCollected = false
  registry.metrics().then(() => {
    isCollected = true
  })
  for (const [milliseconds, expected] of [[499, false], [1, true]] as const) {
    for (let passed = 0; passed < milliseconds; passed++) mock.timers.tick(1)
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
    t.equal(isCollected, expected)
  }
})

t.test("the default registry is prom-client's own", async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  t.teardown(() => {
    register.clear()
  })
  await app.register(quotaMetricsPlugin)
  t.match(await register.metrics(), /llm_quota_decisions_total/)
})

t.test(
  'a registry with another metric of the same name is an error that has left no metric behind',
  async (t) => {
    const registry = new Registry()
    const name = 'llm_quota_sweeps'
    registry.registerMetric(new Gauge({ name, help: 'Of the host.', registers: [] }))
    const app = Fastify()
    t.teardown(() => app.close())
    const errors: unknown[] = []
    app.register(quotaMetricsPlugin, { registry }).after((error) => {
      errors.push(error)
      t.equal(registry.getMetricsAsArray().length, 1)
      registry.removeSingleMetric(name)
      app.register(quotaMetricsPlugin, { registry })
    })
    await app.ready()
    matchExactly(t, errors, [
      {
        code: 'FST_ERR_LLM_QUOTA_OPTION',
        message: /option registry must not have another metric llm_quota_sweeps; it got an object/
      }
    ])
    t.match(await registry.metrics(), /llm_quota_decisions_total/)
  }
)

t.test('a version of prom-client that cannot collect metrics is named', async (t) => {
  const { metrics } = Registry.prototype
  t.teardown(() => {
    Registry.prototype.metrics = metrics
  })
  Object.assign(Registry.prototype, { metrics: () => new tooOld.Registry().metrics() })
  const app = Fastify()
  t.teardown(() => app.close())
  await t.rejects(async () => app.register(quotaMetricsPlugin), {
    code: 'FST_ERR_LLM_QUOTA_OPTION',
    message: /option registry must be a registry of prom-client 13 or later/
  })
})

t.test(
  'the metrics call no function of a store while they count, so that one that throws ends ' +
    'no process',
  async (t) => {
    const memory = new MemoryQuotaStore()
    const fails = (): never => {
      throw new Error('a function of the store')
    }
    const answers: (() => void)[] = []
    const store: QuotaStore = {
      acquire: (demands) => memory.acquire(demands),
      settle: () =>
        new Promise((resolve) => {
          answers.push(resolve)
        }),
      peek: fails,
      forget: fails,
      list: fails,
      inspect: fails,
      clearCounters: fails
    }
    const { ask, scrape } = await createServer(t, { store, quotas })
    t.same(await ask(chat.path, 'alice', 2), [200, 200])
    // What a subscriber throws would be an uncaught exception before the next turn. No place is
    // given back, but no request is concurrent.
    await new Promise((resolve) => {
      setImmediate(resolve)
    })
    t.match(await scrape(), {
      [`llm_quota_limit${ofChat}`]: 70,
      [`llm_quota_concurrent_requests${ofStreams}`]: 0
    })
    // The server waits for them before it closes.
    for (const answer of answers) answer()
  }
)

t.test(
  'each decision is timed once: how long it waits for its stores, whatever their results',
  async (t) => {
    const clock = virtualPerformance(t)
    const store = new ToldStore(new VirtualClock())
    const another = { operations: [{ method: 'POST', path: '/api/analyze' }], store }
    const { ask, scrape } = await createServer(t, { quotas: { another } })
    for (const [manner, status] of [
      ['answers', 200],
      ['promises', 200],
      ['throws', 503],
      ['rejects', 503],
      ['answers nonsense', 503],
      ['promises nonsense', 503]
    ] as const) {
      store.manner = manner
      t.same(await ask(), [status], manner)
    }
    const durations = 'llm_quota_store_duration_seconds'
    t.match(await scrape(), { [`${durations}_count`]: 6, [`${durations}_sum`]: 0 })
    store.manner = 'hangs'
    const asked = store.asked
    const answered = ask()
    await until('the store is asked', () => store.asked > asked)
    clock.advance(20)
    store.answerNow()
    t.same(await answered, [200])
    store.manner = 'answers'
    t.match(await scrape(), { [`${durations}_count`]: 7, [`${durations}_sum`]: 0.02 })
  }
)
