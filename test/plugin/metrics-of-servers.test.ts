// The metrics of fastify-llm-quota/metrics: registries, and several servers and processes.
import Fastify, { type FastifyInstance } from 'fastify'
import { AggregatorRegistry, Gauge, register, Registry } from 'prom-client'
import tooOld from 'prom-client-too-old'
import t from 'tap'
import { placeChanges, preferenceFailures, storeDurations } from '../../lib/channels.js'
import quotaPlugin, {
  InsuredQuotaStore,
  localAuthentication,
  MemoryQuotaStore,
  quotaDecisions,
  quotaSettlements,
  type QuotaStore
} from '../../lib/index.js'
import quotaMetricsPlugin from '../../lib/metrics.js'
import { VirtualClock } from '../../lib/testing.js'
import { matchExactly } from '../support/match-exactly.js'
import {
  admitted,
  chat,
  createMetricsServer,
  decisionsIn,
  ofChat,
  ofDefault,
  ofStreams,
  quotas,
  scrape
} from '../support/metrics-server.js'
import { ToldStore } from '../support/told-store.js'

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
        createMetricsServer(t, { perMinute, store: new InsuredQuotaStore({ primary }) })
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
      await createMetricsServer(t, {}, shared),
      await createMetricsServer(t, {}, shared),
      await createMetricsServer(t)
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
    await (await createMetricsServer(t, {}, shared)).ask()
    t.same(
      await decisionsIn(shared),
      { [admitted]: 5 },
      'a server that starts later continues the counts'
    )
    shared.clear()
    await (await createMetricsServer(t, {}, shared)).ask()
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

t.test('permits without a request are counted by their own server, for no operation', async (t) => {
  const own = await createMetricsServer(t, { quotas })
  const other = await createMetricsServer(t, { quotas })
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
      const { app, ask } = await createMetricsServer(t, { quotas: own }, registry)
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

t.test('permits for a request of another framework are counted, and end no process', async (t) => {
  const { app, decisions, scrape } = await createMetricsServer(t, {
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
