// The metrics of fastify-llm-quota/metrics: exact to the request, with several quotas, and with several servers in a process.
import Fastify, { type FastifyInstance } from 'fastify'
import { AggregatorRegistry, type OpenMetricsContentType, register, Registry } from 'prom-client'
import t, { type Test } from 'tap'
import quotaPlugin, { InsuredQuotaStore, localAuthentication, MemoryQuotaStore, quotaDecisions, type QuotaOptions, type QuotaStore } from '../../lib/index.js'
import quotaMetricsPlugin, { quotaMetricsPlugin as named, type QuotaMetricsRegistry } from '../../lib/metrics.js'
import { VirtualClock } from '../../lib/testing.js'
import { ToldStore } from '../support/told-store.js'
import { virtualPerformance } from '../support/virtual-performance.js'

const trackedCallers = 'llm_quota_tracked_callers{quota="default"}'
const sweeps = 'llm_quota_sweeps{quota="default"}'
const overflows = 'llm_quota_overflow_decisions_total{quota="default"}'
const chat = { method: 'POST', path: '/api/chat' }

/** A server with the quota and its metrics. Callers are identified by a header. */
async function createServer (t: Test, options: QuotaOptions = {}, registry: QuotaMetricsRegistry = new Registry()) {
  const app: FastifyInstance = Fastify()
  t.teardown(() => app.close())
  await app.register(quotaPlugin, { authentication: ({ headers }) => localAuthentication(String(headers['x-caller'] ?? '')), quotas: { chat: { operations: [chat], perMinute: 7 } }, ...options })
  await app.register(quotaMetricsPlugin, { registry })
  app.post('/api/analyze', async () => 'ran')
  app.post(chat.path, async () => 'ran')
  app.get('/api/other', async () => 'ran')
  const ask = async (url = '/api/analyze', caller = 'alice', count = 1): Promise<number[]> => {
    const statuses = []
    for (let request = 0; request < count; request++) statuses.push((await app.inject({ method: 'POST', url, headers: caller === '' ? {} : { 'x-caller': caller } })).statusCode)
    return statuses
  }
  return { app, registry, ask, close: () => app.close(), decisions: () => decisionsIn(registry), scrape: () => scrape(registry) }
}

/** Returns the value of each series in a scrape. */
async function scrape (registry: QuotaMetricsRegistry): Promise<Record<string, number>> {
  const text = await registry.metrics()
  return Object.fromEntries([...text.matchAll(/^([a-z]\S*(?:\{[^}]*\})?) (\S+)$/gm)].map(([, series = '', value]) => [series, Number(value)]))
}

/** Returns the counts above 0 of enforced decisions, by quota, operation and outcome. */
async function decisionsIn (registry: QuotaMetricsRegistry): Promise<Record<string, number>> {
  const series = Object.entries(await scrape(registry)).filter(([name, value]) => name.startsWith('llm_quota_decisions_total') && name.includes('enforced="true"') && value > 0)
  return Object.fromEntries(series.map(([name, value]) => [[...name.matchAll(/="([^"]*)"/g)].map(([, label]) => label).slice(0, -1).join(' '), value]))
}

t.test('each decision is counted by quota, operation and outcome, also of concurrent requests', async (t) => {
  const preferences = new Map<string, number>()
  const { app, registry, ask, decisions, scrape } = await createServer(t, { perMinute: 2, preferences })
  await Promise.all([ask('/api/analyze', 'alice', 5), ask('/api/analyze', 'bob', 5), ask(chat.path, 'alice', 9), ask(chat.path, '', 3)])
  preferences.set('rate-limit.per-minute', 0)
  await ask('/api/analyze', 'alice', 4)
  await app.inject('/api/other')
  t.same(await decisions(), {
    'default POST /api/analyze admitted': 4,
    'default POST /api/analyze rejected': 6,
    'default POST /api/analyze disabled': 4,
    'chat POST /api/chat admitted': 7,
    'chat POST /api/chat rejected': 2,
    'chat POST /api/chat unauthenticated': 3
  })
  const text = await registry.metrics()
  t.equal(text.match(/^llm_quota_decisions_total\{/gm)?.length, 10, 'each outcome of an operation starts from 0')
  t.notMatch(text, /alice|[0-9a-f]{64}/, 'no label identifies a caller')
  t.match(await scrape(), { 'llm_quota_limit{quota="default"}': 0, 'llm_quota_limit{quota="chat"}': 7 }, 'the gauge shows the effective limit')
  t.equal((await app.inject('/metrics')).statusCode, 404, 'no route is added')
})

t.test('decisions in shadow mode are not enforced', async (t) => {
  const { ask, scrape } = await createServer(t, { perMinute: 1, mode: 'shadow' })
  await ask('/api/analyze', 'alice', 3)
  const series = (outcome: string) => `llm_quota_decisions_total{quota="default",operation="POST /api/analyze",outcome="${outcome}",enforced="false"}`
  t.match(await scrape(), { [series('admitted')]: 1, [series('rejected')]: 2 })
})

t.test('the metrics have a description, a type, labels and buckets', async (t) => {
  const { registry, ask } = await createServer(t, { store: new InsuredQuotaStore({ primary: new MemoryQuotaStore() }) })
  await ask()
  const lines = (await registry.metrics()).split('\n')
  t.same(lines.filter((line) => line.startsWith('# TYPE')).map((line) => line.slice('# TYPE '.length)), [
    'llm_quota_decisions_total counter',
    'llm_quota_overflow_decisions_total counter',
    'llm_quota_limit gauge',
    'llm_quota_tokens_charged_total counter',
    'llm_quota_failed_charges_total counter',
    'llm_quota_preference_failures_total counter',
    'llm_quota_store_duration_seconds histogram',
    'llm_quota_requests_in_flight gauge',
    'llm_quota_insured_primary gauge',
    'llm_quota_insured_answers_total counter',
    'llm_quota_tracked_callers gauge',
    'llm_quota_sweeps gauge',
    'llm_quota_max_tracked_callers gauge'
  ])
  for (const name of ['tracked_callers', 'sweeps', 'max_tracked_callers']) {
    t.match(lines.find((line) => line.startsWith(`# HELP llm_quota_${name} `)), /The instances that share a store report the same number: use the maximum, not the sum\.$/)
  }
  const outcomes = lines.flatMap((line) => /^llm_quota_decisions_total\{quota="default",operation="POST \/api\/analyze",outcome="(\w+)",enforced="true"\}/.exec(line)?.[1] ?? [])
  t.same(outcomes, ['admitted', 'rejected', 'unauthenticated', 'disabled', 'unavailable'])
  t.same(lines.flatMap((line) => /duration_seconds_bucket\{le="(.*)"\}/.exec(line)?.[1] ?? []), ['0.00001', '0.0001', '0.001', '0.005', '0.01', '0.05', '0.1', '0.5', '+Inf'])
})

t.test('the metrics of several processes are aggregated: counts add up, gauges of stores do not, the highest limit is used, and one fallback is visible', async (t) => {
  const clock = new VirtualClock()
  const failing = new ToldStore(clock)
  failing.manner = 'throws'
  const processes: [number, QuotaStore][] = [[5, new MemoryQuotaStore()], [7, failing], [6, new MemoryQuotaStore()]]
  const servers = await Promise.all(processes.map(([perMinute, primary]) => createServer(t, { perMinute, store: new InsuredQuotaStore({ primary, clock: clock.now, timers: clock }) })))
  for (const { ask } of servers) await ask()
  const together = AggregatorRegistry.aggregate(await Promise.all(servers.map(({ registry }) => registry.getMetricsAsJSON())))
  t.match(await scrape(together), {
    'llm_quota_decisions_total{quota="default",operation="POST /api/analyze",outcome="admitted",enforced="true"}': 3,
    'llm_quota_limit{quota="default"}': 7,
    'llm_quota_tracked_callers{quota="default"}': 1,
    'llm_quota_insured_answers_total{store="primary"}': 2,
    'llm_quota_insured_answers_total{store="fallback"}': 1,
    llm_quota_insured_primary: 0
  })
})

t.test('each server of a process is counted in its own registry', async (t) => {
  const [one, other] = [await createServer(t), await createServer(t)]
  await one.ask('/api/analyze', 'alice', 3)
  await other.ask()
  t.same([await one.decisions(), await other.decisions()], [{ 'default POST /api/analyze admitted': 3 }, { 'default POST /api/analyze admitted': 1 }])
  await one.close()
  await other.ask()
  t.same(await other.decisions(), { 'default POST /api/analyze admitted': 2 }, 'a server that closes does not affect the other one')
})

t.test('servers share the metrics of one registry', async (t) => {
  const registry = new Registry()
  const servers = [await createServer(t, {}, registry), await createServer(t, {}, registry)] as const
  for (const { ask } of servers) for (const caller of ['alice', 'bob']) await ask('/api/analyze', caller)
  t.same(await decisionsIn(registry), { 'default POST /api/analyze admitted': 4 })
  await servers[1].ask('/api/analyze', 'carol')
  t.match(await scrape(registry), { [trackedCallers]: 3 }, 'the gauge is the number of the fullest store')
  for (const { close } of servers) await close()
  t.notOk(trackedCallers in await scrape(registry), 'a closed server has no store')
  t.notOk(quotaDecisions.hasSubscribers, 'a closed server does not subscribe to decisions')
  const next = await createServer(t, {}, registry)
  await next.ask()
  t.same(await decisionsIn(registry), { 'default POST /api/analyze admitted': 6 }, 'a server that starts later continues the counts')
})

t.test('a second registration on a server does not count decisions twice, but in another registry', async (t) => {
  const { app, registry, ask, decisions } = await createServer(t)
  const another = new Registry()
  for (const each of [registry, another]) await app.register(async (scope) => { await scope.register(quotaMetricsPlugin, { registry: each }) })
  await ask()
  t.same([await decisions(), await decisionsIn(another)], [{ 'default POST /api/analyze admitted': 1 }, { 'default POST /api/analyze admitted': 1 }])
})

t.test('the metrics plugin can be registered before the quota, and outside the scopes that register the quota', async (t) => {
  const registry = new Registry()
  const app: FastifyInstance = Fastify()
  t.teardown(() => app.close())
  await app.register(quotaMetricsPlugin, { registry })
  for (const prefix of ['/one', '/other']) {
    await app.register(async (scope) => {
      await scope.register(quotaPlugin, { authentication: () => localAuthentication('alice') })
      scope.post('/api/analyze', async () => 'ran')
    }, { prefix })
  }
  for (const url of ['/one/api/analyze', '/other/api/analyze']) t.equal((await app.inject({ method: 'POST', url })).statusCode, 200)
  t.same(await decisionsIn(registry), { 'default POST /api/analyze admitted': 2 })
  t.match(await scrape(registry), { [trackedCallers]: 1 }, 'each scope has a store of its own')
})

t.test('a registry that the host has cleared gets the metrics again', async (t) => {
  const { registry, close } = await createServer(t)
  await close()
  registry.clear()
  const { ask, decisions } = await createServer(t, {}, registry)
  await ask()
  t.same(await decisions(), { 'default POST /api/analyze admitted': 1 })
})

t.test('the metrics plugin, with its name and Fastify versions, supports the default registry and the OpenMetrics format', async (t) => {
  t.equal(named, quotaMetricsPlugin)
  t.same(Reflect.get(quotaMetricsPlugin, Symbol.for('plugin-meta')), { fastify: '5.x || ^6.0.0-alpha.4', name: 'fastify-llm-quota-metrics' })
  const app: FastifyInstance = Fastify()
  await app.register(quotaPlugin, { authentication: () => localAuthentication('alice') })
  await app.register(quotaMetricsPlugin)
  await app.inject({ method: 'POST', url: '/api/analyze' })
  t.same(await decisionsIn(register), { 'default POST /api/analyze admitted': 1 })
  await app.close()
  register.clear()
  const open = new Registry<OpenMetricsContentType>()
  open.setContentType(Registry.OPENMETRICS_CONTENT_TYPE)
  const { ask, decisions } = await createServer(t, {}, open)
  await ask()
  t.same(await decisions(), { 'default POST /api/analyze admitted': 1 })
})

t.test('start-up fails if an option of the metrics plugin is invalid', async (t) => {
  const unusable: [object, string][] = [
    [{ registry: {} }, 'the option registry must be a registry of prom-client with a function registerMetric; it got an object'],
    [{ registry: { registerMetric () {} } }, 'the option registry must be a registry of prom-client with a function getSingleMetric; it got an object'],
    [{ registers: [] }, 'the option registers does not exist; it got an array']
  ]
  for (const [options, message] of unusable) {
    await t.rejects(async () => { await Fastify().register(quotaMetricsPlugin, options) }, { code: 'FST_ERR_LLM_QUOTA_OPTION', message: `fastify-llm-quota: ${message}` })
  }
  await t.resolves(async () => { await Fastify().register(quotaMetricsPlugin, { registry: new Registry(), prefix: '/x', logLevel: 'warn', logSerializers: {} }) }, "Fastify's own options are accepted")
})

t.test('the metrics contain the decisions by the overflow counter, the tracked callers and the sweeps', async (t) => {
  const clock = new VirtualClock()
  const { app, ask, scrape } = await createServer(t, { store: new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers: 2 }) })
  await app.ready()
  t.match(await scrape(), { [trackedCallers]: 0, [sweeps]: 0, 'llm_quota_max_tracked_callers{quota="default"}': 2 })
  for (const caller of ['alice', 'bob', 'carol', 'dave', 'alice']) await ask('/api/analyze', caller)
  t.match(await scrape(), { [overflows]: 2, [trackedCallers]: 2, [sweeps]: 0 })
  clock.advance(120_000)
  await ask('/api/analyze', 'carol')
  t.match(await scrape(), { [overflows]: 2, [trackedCallers]: 1, [sweeps]: 1 })
})

t.test('llm_quota_insured_primary distinguishes a store that is not insured, the primary and the fallback', async (t) => {
  const { registry, ask, scrape } = await createServer(t)
  const insured = async () => (await scrape())['llm_quota_insured_primary']
  await ask()
  t.equal(await insured(), undefined, 'not insured: no series')
  const clock = new VirtualClock()
  const primary = new ToldStore(clock)
  const server = await createServer(t, { store: new InsuredQuotaStore({ primary, clock: clock.now, timers: clock }) }, registry)
  await server.app.ready()
  t.equal(await insured(), 1, 'on the primary')
  primary.manner = 'rejects'
  t.same(await server.ask(), [200])
  t.equal(await insured(), 0, 'on the fallback')
  t.notOk(trackedCallers in await scrape(), 'the number is unknown if one of the stores does not tell it')
  primary.manner = 'promises'
  clock.advance(1000)
  await server.ask()
  t.equal(await insured(), 1, 'on the primary again')
  const failing = await createServer(t, { store: new InsuredQuotaStore({ primary: Object.assign(new ToldStore(clock), { manner: 'throws' }) }) }, registry)
  await failing.ask()
  t.equal(await insured(), 0, 'one of two on the fallback')
  await failing.close()
  await server.close()
  t.equal(await insured(), undefined)
})

t.test('llm_quota_insured_primary is the share of the shards that are on the primary', async (t) => {
  const primary = new ToldStore(new VirtualClock())
  const store = new InsuredQuotaStore({ primary })
  const { app, scrape } = await createServer(t, { store })
  await app.ready()
  primary.manners.set(2, 'throws')
  for (const caller of ['a0', 'a1', 'a2', 'a3', 'a2']) await store.acquire(caller, 10)
  t.match(await scrape(), { llm_quota_insured_primary: 0.75, 'llm_quota_insured_answers_total{store="primary"}': 3, 'llm_quota_insured_answers_total{store="fallback"}': 2 })
  await store.quota('chat', 60_000).acquire('a0', 10)
  t.match(await scrape(), { 'llm_quota_insured_answers_total{store="primary"}': 4, 'llm_quota_insured_answers_total{store="fallback"}': 2 })
})

t.test('charged tokens, failed charges and requests in flight are counted by quota', async (t) => {
  const store = new MemoryQuotaStore()
  const { app, ask, scrape } = await createServer(t, { store, quotas: { tokens: { operations: [chat], tokensPerMinute: 1000 }, streams: { operations: [chat], inFlight: 2 } } })
  const inFlight = async () => (await scrape())['llm_quota_requests_in_flight{quota="streams"}']
  const during: unknown[] = []
  app.addHook('preHandler', async (request) => {
    await app.quotaCharge(request, 30)
    during.push(await inFlight())
  })
  await ask(chat.path)
  const charged = { 'llm_quota_tokens_charged_total{quota="tokens"}': 30, 'llm_quota_failed_charges_total{quota="tokens"}': 0 }
  t.match(await scrape(), { ...charged, 'llm_quota_tracked_callers{quota="tokens"}': 1 })
  t.same([...during, await inFlight()], [1, 0])
  t.same(Object.keys(await scrape()).filter((series) => series.startsWith('llm_quota_requests_in_flight')), ['llm_quota_requests_in_flight{quota="streams"}'])

  const tokens = store.quota('tokens', 60_000)
  const acquire = tokens.acquire.bind(tokens)
  tokens.acquire = (callerKey, limit, cost) => {
    if (limit === Number.MAX_SAFE_INTEGER) throw new Error('no connection')
    return acquire(callerKey, limit, cost)
  }
  await ask(chat.path)
  t.match(await scrape(), { ...charged, 'llm_quota_failed_charges_total{quota="tokens"}': 1 })
  t.notOk('llm_quota_tracked_callers{quota="streams"}' in await scrape(), 'a quota of requests in flight tracks no callers')
})

t.test('unavailable preferences are counted by name', async (t) => {
  const { ask, scrape } = await createServer(t, { preferences: { get () { throw new Error('no preferences') } } })
  await ask(chat.path, 'alice', 2)
  t.match(await scrape(), { 'llm_quota_preference_failures_total{preference="rate-limit.chat.per-minute"}': 2 })
})

for (const manner of ['throws', 'rejects', 'hangs', 'answers nonsense', 'promises nonsense'] as const) {
  t.test(`a store that ${manner}, insured or not, has no number of tracked callers, and does not affect the other metrics`, async (t) => {
    // The time limits do not keep the process alive.
    const wait = setInterval(() => {}, 1_000)
    t.teardown(() => { clearInterval(wait) })
    for (const isInsured of [false, true]) {
      const store = new ToldStore(new VirtualClock())
      const { ask, scrape } = await createServer(t, { store: isInsured ? new InsuredQuotaStore({ primary: store, timeout: 1 }) : store })
      await ask()
      t.match(await scrape(), { [trackedCallers]: 77, [sweeps]: 0 })
      store.manner = manner
      const values = await scrape()
      t.notOk(trackedCallers in values || sweeps in values, 'no value is reported that could be wrong')
      t.match(values, { llm_quota_store_duration_seconds_count: 1, 'llm_quota_limit{quota="default"}': 10 })
      if (isInsured) {
        t.same(await ask(), [200])
        t.notOk(trackedCallers in await scrape(), 'nor on the fallback')
      }
    }
  })
}

t.test('every call of the store is timed, whether it returns, resolves, throws or rejects, and its result does not change', async (t) => {
  const store = new ToldStore(new VirtualClock())
  const { ask, scrape } = await createServer(t, { store })
  for (const [manner, status] of [['answers', 200], ['promises', 200], ['throws', 503], ['rejects', 503]] as const) {
    store.manner = manner
    t.same(await ask(), [status], manner)
  }
  t.match(await scrape(), { llm_quota_store_duration_seconds_count: 4 })
})

t.test('a timed store is asked once, also if each call of "then" runs its command again or if "then" is no function', async (t) => {
  const memory = new MemoryQuotaStore()
  const acquire = () => memory.acquire('a', 9)
  const results = [{ then: async (resolve: (result: unknown) => void) => { resolve(acquire()) } }, { ...acquire(), then: undefined }]
  for (const result of results) {
    const { ask, scrape } = await createServer(t, { quotas: {}, store: { acquire: () => result } as object as QuotaStore })
    t.same(await ask(), [200])
    t.match(await scrape(), { llm_quota_store_duration_seconds_count: 1 })
  }
  t.match(memory.peek('a'), { count: 2 })
})

t.test('the duration of the store is the time that a decision waits for it', async (t) => {
  const clock = virtualPerformance(t)
  const store = new ToldStore(new VirtualClock())
  store.manner = 'hangs'
  const { ask, scrape } = await createServer(t, { store })
  const answered = ask()
  while (store.asked === 0) await new Promise((resolve) => { setImmediate(resolve) })
  clock.advance(20)
  store.answerNow()
  await answered
  store.manner = 'answers'
  t.match(await scrape(), { llm_quota_store_duration_seconds_sum: 0.02 })
})
