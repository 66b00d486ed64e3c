// The metrics of fastify-llm-quota/metrics: what they show of stores, and how long those take.
import { mock } from 'node:test'
import t from 'tap'
import {
  InsuredQuotaStore,
  MemoryQuotaStore,
  ShardedQuotaStore,
  type QuotaStore
} from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { demand } from '../support/demands.js'
import { matchExactly } from '../support/match-exactly.js'
import {
  chat,
  createMetricsServer,
  ofChat,
  ofDefault,
  ofStreams,
  quotas
} from '../support/metrics-server.js'
import { virtualPerformance } from '../support/time.js'
import { ToldStore } from '../support/told-store.js'
import { until } from '../support/until.js'

t.test(
  'the metrics contain the decisions by the overflow counter, the tracked callers and the sweeps',
  async (t) => {
    const clock = new VirtualClock()
    const { app, ask, scrape } = await createMetricsServer(t, {
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
    const plain = await createMetricsServer(t)
    await plain.ask()
    t.notOk('llm_quota_insured_primary' in (await plain.scrape()))
    const primaries = [1, 2, 3, 4].map(() => new ToldStore(new VirtualClock()))
    const shards = primaries.map((primary) => new InsuredQuotaStore({ primary }))
    const { app, registry, scrape } = await createMetricsServer(t, {
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
    const another = await createMetricsServer(t, { store }, registry)
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
    const { app, ask, scrape } = await createMetricsServer(t, { store })
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
  'a store that fails or is invalid has no number of tracked callers; other metrics are not ' +
    'affected',
  async (t) => {
    const tracked = `llm_quota_tracked_callers${ofDefault}`
    for (const manner of ['throws', 'rejects', 'answers nonsense', 'promises nonsense'] as const) {
      const store = new ToldStore(new VirtualClock())
      const { ask, scrape } = await createMetricsServer(t, { store })
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
  const { app, registry } = await createMetricsServer(t, { store })
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
    const { ask, scrape } = await createMetricsServer(t, { store, quotas })
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
    const { ask, scrape } = await createMetricsServer(t, { quotas: { another } })
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
