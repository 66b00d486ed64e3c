// docs/rules.md, "Handing over": a permit that another process ends, on a store in memory whose
// receipts are texts, as those of stores on servers are.
import { text } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { placeChanges } from '../../lib/channels.js'
import quotaPlugin, {
  callerKey,
  localAuthentication,
  MemoryQuotaStore,
  quotaSettlements,
  type QuotaOptions,
  type QuotaPermit,
  type QuotaSettlement,
  type QuotaStore
} from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { captureLog } from '../support/log.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { VirtualTime } from '../support/time.js'
import { until } from '../support/until.js'

const mira = localAuthentication('mira')

/** A store that several processes can share. */
function sharedStore (memory: MemoryQuotaStore): QuotaStore {
  return {
    acquire: (demands) =>
      memory
        .acquire(demands)
        .map((each) =>
          each?.receipt === undefined ? each : { ...each, receipt: JSON.stringify(each.receipt) }
        ),
    settle: (receipt, less, once) => memory.settle(JSON.parse(String(receipt)), less, once),
    peek: (demand) => memory.peek(demand)
  }
}

const tokens = { perDay: { tokens: 100 }, cost: 60 }

/** A service, another one with the same quotas, and the store that they share. */
async function createServices (
  t: Test,
  quotas: NonNullable<QuotaOptions['quotas']> = { tokens },
  wrap = (store: QuotaStore) => store
) {
  const clock = new VirtualClock()
  const store = wrap(sharedStore(new MemoryQuotaStore({ clock: clock.now })))
  const log = captureLog()
  const start = async (): Promise<FastifyInstance> => {
    const app: FastifyInstance = Fastify({ logger: log.logger })
    await app.register(quotaPlugin, { operations: [], authentication: () => mira, store, quotas })
    t.teardown(() => app.close())
    return app
  }
  const app = await start()
  const names = Object.keys(quotas)
  return {
    clock,
    log,
    app,
    /** Starts the other service. */
    startOther: start,
    acquire: (options = {}) => app.quotaAcquire(mira, names, options),
    standing: async (name = 'tokens') => {
      const standing = await app.quotaStanding(mira, name)
      return [standing?.count, standing?.held]
    }
  }
}

const settlements = (run: () => Promise<unknown>) =>
  published<QuotaSettlement>(run, quotaSettlements.name)

t.test('what a permit counts stays counted, as used and not as held', async (t) => {
  const { app, acquire, standing } = await createServices(t)
  const messages = await settlements(async () => {
    const permit = await acquire()
    t.same(await standing(), [60, 60])
    const text = await permit.handOver()
    t.same(await standing(), [60, 0])
    t.equal(await permit.handOver(), text, 'it has one text')
    await permit.end()
    await app.close()
    t.same(await standing(), [60, 0])
  })
  t.same(messages, [])
})

t.test('a permit that is handed over ends neither with its response nor the server', async (t) => {
  const { app, startOther, standing } = await createServices(t)
  app.post('/jobs', { config: { quota: 'tokens' } }, async ({ quota }) => quota.handOver())
  const { body } = await app.inject({ method: 'POST', url: '/jobs' })
  t.same(await standing(), [60, 0])
  await app.close()
  const other = await startOther()
  await other.quotaResume(body).end()
  t.same(await standing(), [60, 0])
  await other.quotaResume(body).charge(1)
  t.same(await standing(), [60, 0])
})

// What is reported before and after a permit of 60 is handed over; what it counts in the end.
const reports: [what: string, before: number | null, after: number | null, used: number][] = [
  ['less than was granted', null, 15, 15],
  ['nothing was used', null, 0, 0],
  ['more than was granted', null, 75, 75],
  ['what was reported before goes along', 20, 15, 35],
  ['only something was reported before', 20, null, 20],
  ['more than was granted was reported before', 70, 5, 75],
  ['nothing is reported', null, null, 60]
]
for (const [what, before, after, used] of reports) {
  t.test(`two processes that end a permit at once count it once: ${what}`, async (t) => {
    const { app, startOther, acquire, standing } = await createServices(t)
    const permit = await acquire({ reference: 'job 7' })
    await permit.charge(before)
    const text = await permit.handOver()
    const attempts = [app, await startOther()].map((each) => each.quotaResume(text))
    const messages = await settlements(async () => {
      for (const attempt of attempts) {
        t.equal(attempt.granted('tokens'), 60)
        await attempt.charge(after)
      }
      await Promise.all(attempts.map((attempt) => attempt.end()))
      await attempts[0]?.end()
    })
    t.same(await standing(), [used, 0])
    matchExactly(t, messages, [
      {
        request: null,
        reference: 'job 7',
        callerKey: callerKey(mira),
        quota: 'tokens',
        unit: 'tokens',
        granted: 60,
        used,
        before: 0,
        reported: before !== null || after !== null,
        failed: false
      }
    ])
  })
}

t.test('the end of a resumed permit leaves what other requests hold', async (t) => {
  const { app, acquire, standing } = await createServices(t)
  const text = await (await acquire()).handOver()
  const other = await app.quotaAcquire(mira, { tokens: 40 })
  t.same(await standing(), [100, 40])
  const resumed = app.quotaResume(text)
  await resumed.charge(15)
  await resumed.end()
  t.same(await standing(), [55, 40])
  await other.end()
  t.same(await standing(), [55, 0])
})

t.test('chargeUsage and meter report in a resumed permit, by fromUsage', async (t) => {
  const { app, acquire, standing } = await createServices(t, {
    tokens: { ...tokens, cost: 30 },
    cents: { perDay: { cents: 100 }, cost: 30, fromUsage: ({ total }) => 2 * total }
  })
  const charged = app.quotaResume(await (await acquire()).handOver())
  await charged.chargeUsage({ prompt_tokens: 2, completion_tokens: 3 })
  await charged.end()
  t.same([await standing(), await standing('cents')], [[5, 0], [10, 0]])
  const metered = app.quotaResume(await (await acquire()).handOver())
  const body = new Response('{"usage":{"prompt_tokens":4,"completion_tokens":3},"choices":[]}').body
  await text(metered.meter(body))
  await metered.end()
  t.same([await standing(), await standing('cents')], [[12, 0], [24, 0]])
})

t.test('each permit is settled, even if another one of the caller counts the same', async (t) => {
  const { app, acquire, standing } = await createServices(t, { tokens: { ...tokens, cost: 20 } })
  for (let job = 0; job < 4; job++) {
    const text = await (await acquire()).handOver()
    const resumed = app.quotaResume(text)
    await resumed.charge(5)
    await resumed.end()
  }
  t.same(await standing(), [20, 0])
})

t.test('unreported says what a permit counts that nobody reports', async (t) => {
  const seen: unknown[] = []
  const { app, acquire, standing, log } = await createServices(t, {
    tokens: {
      ...tokens,
      unreported: (request: unknown) => {
        seen.push(request)
        return 33
      }
    }
  })
  await app.quotaResume(await (await acquire()).handOver()).end()
  t.same(await standing(), [33, 0])
  t.same(seen, [null])
  t.same(log.problems(), [])
})

t.test('a resumed permit that ends before its meter counts what was granted', async (t) => {
  const { app, acquire, standing } = await createServices(t, {
    tokens: { ...tokens, unreported: 0 }
  })
  const resumed = app.quotaResume(await (await acquire()).handOver())
  const metered = resumed.meter(new Response('{"usage":{"total_tokens":5}}').body)
  await resumed.end()
  await text(metered)
  await resumed.charge(7)
  await resumed.end()
  t.same(await standing(), [60, 0])
})

t.test('a request that waits runs when a resumed permit gives room back', async (t) => {
  const time = new VirtualTime()
  time.start()
  t.teardown(() => {
    time.stop()
  })
  const { app, clock, acquire } = await createServices(t, {
    tokens: { ...tokens, wait: 300_000 }
  })
  const resumed = app.quotaResume(await (await acquire()).handOver())
  clock.advance(86_400_000 - 200_000)
  let isAdmitted = false
  acquire().then(({ refusal }) => {
    isAdmitted = refusal === null
  })
  await resumed.charge(0)
  await resumed.end()
  await until('the other one is admitted', () => isAdmitted)
})

t.test('once the window is over, no end changes or publishes anything', async (t) => {
  const { app, clock, acquire, standing } = await createServices(t)
  const text = await (await acquire()).handOver()
  clock.advance(86_400_000)
  await acquire()
  const messages = await settlements(async () => {
    const resumed = app.quotaResume(text)
    await resumed.charge(90)
    await resumed.end()
  })
  t.same(await standing(), [60, 60])
  t.same(messages, [])
})

t.test('neither await using nor the server ends a resumed permit', async (t) => {
  const { app, startOther, acquire, standing } = await createServices(t)
  const text = await (await acquire()).handOver()
  async function fail (): Promise<void> {
    await using attempt = app.quotaResume(text)
    await attempt.charge(15)
    throw new Error('the model is down')
  }
  await t.rejects(fail())
  await app.close()
  t.same(await standing(), [60, 0])
  const attempt = (await startOther()).quotaResume(text)
  await attempt.charge(20)
  await attempt.end()
  t.same(await standing(), [20, 0])
})

t.test('a request can be given back, or count more, in another process', async (t) => {
  const { app, acquire, standing } = await createServices(t, {
    calls: { perDay: 5 },
    tokens: { ...tokens, cost: 30 }
  })
  const texts = [await (await acquire()).handOver(), await (await acquire()).handOver()]
  t.same(await standing('calls'), [2, 0])
  for (const [index, text] of texts.entries()) {
    const resumed = app.quotaResume(text)
    await resumed.charge(index === 0 ? { requests: 0, tokens: 0 } : { requests: 3, tokens: 7 })
    await resumed.end()
  }
  t.same(await standing('calls'), [3, 0])
  t.same(await standing(), [7, 0])
})

t.test('the end of a request of which nothing is reported asks no store', async (t) => {
  const host = await createServices(t, { calls: { perDay: 5 } }, (store) => ({
    ...store,
    settle () {
      throw new Error('it is asked')
    }
  }))
  await host.app.quotaResume(await (await host.acquire()).handOver()).end()
  t.same(await host.standing('calls'), [1, 0])
})

t.test('shadow quotas are handed over with the others, or alone', async (t) => {
  const observed = { ...tokens, mode: 'shadow' } as const
  const { app, acquire, standing } = await createServices(t, { tokens, observed })
  const resumed = app.quotaResume(await (await acquire()).handOver())
  await resumed.charge(11)
  await resumed.end()
  t.same([await standing(), await standing('observed')], [[11, 0], [11, 0]])
  const alone = await app.quotaAcquire(mira, 'observed')
  const resumedAlone = app.quotaResume(await alone.handOver())
  t.equal(resumedAlone.granted('tokens'), null)
  await resumedAlone.charge(4)
  await resumedAlone.end()
  t.same(await standing('observed'), [15, 0])
})

t.test('the server does not end what a shadow quota has handed over', async (t) => {
  const { app, startOther, acquire, standing } = await createServices(t, {
    tokens,
    observed: { ...tokens, mode: 'shadow', unreported: 0 },
    places: { concurrent: 2, mode: 'shadow' }
  })
  const text = await (await acquire()).handOver()
  const changes = await published<{ quota: string }>(() => app.close(), placeChanges.name)
  t.same(changes, [])
  t.same([await standing(), await standing('observed')], [[60, 0], [60, 0]])
  const resumed = (await startOther()).quotaResume(text)
  await resumed.charge(11)
  await resumed.end()
  t.same([await standing(), await standing('observed')], [[11, 0], [11, 0]])
})

t.test('the place of a shadow quota is free when its permit is handed over', async (t) => {
  const { acquire, standing } = await createServices(t, {
    tokens,
    places: { concurrent: 2, mode: 'shadow' }
  })
  const permit = await acquire()
  t.same(await standing('places'), [1, 1])
  await permit.handOver()
  t.same(await standing('places'), [0, 0])
})

t.test('what counts in this process only is left out', async (t) => {
  const { app, acquire, standing } = await createServices(t, {
    tokens,
    local: { ...tokens, store: new MemoryQuotaStore() }
  })
  const permit = await acquire()
  const resumed = app.quotaResume(await permit.handOver())
  await resumed.charge(15)
  await resumed.end()
  t.same(await standing(), [15, 0])
  t.same(await standing('local'), [60, 0])
})

t.test('a quota that is off counts nothing, and nothing has to be settled', async (t) => {
  const { app, acquire } = await createServices(t, { tokens: { perDay: { tokens: 0 }, cost: 60 } })
  const resumed = app.quotaResume(await (await acquire()).handOver())
  t.equal(resumed.granted('tokens'), null)
  await resumed.end()
})

t.test('a limit of Infinity grants no number in another process either', async (t) => {
  const { app, acquire } = await createServices(t, {
    tokens: { perDay: { tokens: () => Infinity }, cost: 60 }
  })
  t.equal(app.quotaResume(await (await acquire()).handOver()).granted('tokens'), null)
})

const impossible: [why: string, take: (app: FastifyInstance) => Promise<QuotaPermit>][] = [
  ['was refused', (app) => app.quotaAcquire(mira, { tokens: 101 })],
  [
    'has ended',
    async (app) => {
      const permit = await app.quotaAcquire(mira, 'tokens')
      await permit.end()
      return permit
    }
  ],
  ['has places', (app) => app.quotaAcquire(mira, ['tokens', 'streams'])],
  ['is counted in this process only', (app) => app.quotaAcquire(mira, 'local')]
]
t.test('no permit is handed over that was refused, has ended or counts here only', async (t) => {
  const { app } = await createServices(t, {
    tokens: { ...tokens, cost: 20 },
    streams: { concurrent: 2 },
    local: { ...tokens, store: new MemoryQuotaStore() }
  })
  for (const [why, take] of impossible) {
    const permit = await take(app)
    const message = `fastify-llm-quota: a permit that ${why} cannot be handed over`
    await t.rejects(permit.handOver(), new TypeError(message), why)
    await permit.end()
  }
})

t.test('a request that is subject to no quota has no permit to hand over', async (t) => {
  const { app } = await createServices(t)
  app.get('/', async ({ quota }) => {
    await t.rejects(quota.handOver(), { name: 'TypeError', message: /there is no permit/ })
    return 'ran'
  })
  t.equal((await app.inject('/')).body, 'ran')
})

t.test('a permit that could not be handed over goes on as before', async (t) => {
  const { acquire, standing } = await createServices(t, { tokens, streams: { concurrent: 2 } })
  const permit = await acquire()
  await t.rejects(permit.handOver())
  await permit.charge(15)
  await permit.end()
  t.same([await standing(), await standing('streams')], [[15, 0], [0, 0]])
})

t.test('a report after a permit was handed over is an error in the log', async (t) => {
  const { app, acquire, standing, log } = await createServices(t)
  const permit = await acquire()
  const text = await permit.handOver()
  await permit.charge(90)
  t.same(await standing(), [60, 0])
  matchExactly(t, log.failures(), [
    { msg: /was reported too late/, err: { message: /was handed over/ } }
  ])
  await t.rejects(app.quotaResume(text).handOver(), /was handed over/)
})

const lateReports: [when: string, report: (resumed: QuotaPermit) => Promise<unknown>][] = [
  ['while it ends', (resumed) => Promise.all([resumed.end(), resumed.charge(500)])],
  ['after it has ended', async (resumed) => {
    await resumed.end()
    await resumed.charge(500)
  }]
]
for (const [when, report] of lateReports) {
  t.test(`a report in a resumed permit ${when} is an error in the log`, async (t) => {
    const { app, acquire, standing, log } = await createServices(t)
    const resumed = app.quotaResume(await (await acquire()).handOver())
    await resumed.charge(15)
    await report(resumed)
    await resumed.end()
    t.same(await standing(), [15, 0])
    matchExactly(t, log.failures(), [
      { msg: /was reported too late/, err: { message: /resumed permit has ended/ } }
    ])
  })
}

t.test('a text that no permit of these quotas has is an OptionError', async (t) => {
  const { app, acquire } = await createServices(t)
  const text = await (await acquire()).handOver()
  const { holdings, ...rest } = JSON.parse(text)
  const [holding] = holdings
  const changed = (fields: object) => JSON.stringify({ ...rest, holdings, ...fields })
  const of = (fields: object) => changed({ holdings: [{ ...holding, ...fields }] })
  const unknown = /must be a text that handOver returned; it got a string/
  const otherWindows = /the same unit and windows; it got that of "tokens"/
  const invalid: [text: unknown, message: RegExp][] = [
    [undefined, /text of quotaResume must be a text that handOver .*; it got undefined/],
    [7, /must be a text that handOver returned; it got 7/],
    ['', unknown],
    ['{"secret":', unknown],
    ['null', unknown],
    ['[]', unknown],
    ['{}', /must be of version 1, .* it got undefined/],
    [changed({ version: 2 }), /must be of version 1, .* it got 2/],
    [changed({ holdings: {} }), unknown],
    [changed({ reference: 7 }), unknown],
    [changed({ holdings: [null] }), unknown],
    [of({ receipt: {} }), unknown],
    [of({ granted: -1 }), unknown],
    [of({ isLimited: 1 }), unknown],
    [of({ quota: 'other' }), /a quota that exists; it got that of "other"/],
    [of({ unit: 'cents' }), otherWindows],
    [of({ counters: 'tokens.tokens.hour' }), otherWindows]
  ]
  for (const [given, message] of invalid) {
    t.throws(
      () => Reflect.apply(app.quotaResume, app, [given]),
      { code: 'FST_ERR_LLM_QUOTA_OPTION', message },
      String(message)
    )
  }
  const inMemory: FastifyInstance = Fastify()
  await inMemory.register(quotaPlugin, { quotas: { tokens } })
  t.throws(() => inMemory.quotaResume(text), { message: /a quota whose store is on a server/ })
  t.notMatch(text, 'mira', 'it holds no identity')
})

t.test('an end rejects if its store fails or is silent for 5 s, and can be repeated', async (t) => {
  const time = new VirtualTime()
  let settle: QuotaStore['settle']
  const { app, acquire, standing } = await createServices(t, { tokens }, (store) => ({
    ...store,
    settle: (...given) => (settle ?? store.settle)?.(...given)
  }))
  const resumed = app.quotaResume(await (await acquire()).handOver())
  await resumed.charge(75)
  const messages = await settlements(async () => {
    settle = () => {
      throw new Error('the store is down')
    }
    await t.rejects(resumed.end(), /the store is down/)
    settle = () => new Promise(() => {})
    time.start()
    const ended = resumed.end().then(
      () => 'ended',
      (error: Error) => error.message
    )
    for (let step = 0; step < 10; step++) time.advance(500)
    t.equal(await ended, 'no response within 5000 ms')
    time.stop()
    t.same(await standing(), [60, 0])
    settle = undefined
    await resumed.end()
    await resumed.end()
  })
  t.same(await standing(), [75, 0])
  matchExactly(t, messages, [{ used: 75, reported: true }])
})

// What becomes of the first settlement, which the store applies, and when its reply arrives.
const lostReplies: [what: string, arrives: 'never' | 'before the next end' | 'after it'][] = [
  ['is lost', 'never'],
  ['comes after the time limit', 'before the next end'],
  ['comes after that of the next end', 'after it']
]
for (const [what, arrives] of lostReplies) {
  t.test(`what was used beyond counts once where the reply of the store ${what}`, async (t) => {
    const time = new VirtualTime()
    let isFirst = true
    let arrive = (): void => {}
    const { app, acquire, standing } = await createServices(t, { tokens }, (store) => ({
      ...store,
      settle: async (...given) => {
        const applied = await store.settle?.(...given)
        if (!isFirst || given[2] === undefined) return applied
        isFirst = false
        return await new Promise((resolve) => {
          arrive = () => {
            resolve(applied)
          }
        })
      }
    }))
    const resumed = app.quotaResume(await (await acquire()).handOver())
    await resumed.charge(75)
    const messages = await settlements(async () => {
      time.start()
      const ended = t.rejects(resumed.end(), { message: /no response within 5000 ms/ })
      for (let step = 0; step < 10; step++) time.advance(500)
      await ended
      time.stop()
      if (arrives === 'before the next end') arrive()
      await resumed.end()
      if (arrives === 'after it') arrive()
      await turn()
    })
    t.same(await standing(), [75, 0])
    matchExactly(t, messages, [{ used: 75, reported: true }])
  })
}

const unusable: [what: string, acquire: QuotaStore['acquire'], message: RegExp][] = [
  [
    'fails',
    () => {
      throw new Error('the store is down')
    },
    /the store is down/
  ],
  [
    'rejects it',
    (demands) =>
      demands.map(() => ({ admitted: false, granted: 0, count: 0, held: 0, windowRemaining: 1 })),
    /rejected a demand with the greatest limit/
  ]
]
for (const [what, acquire, message] of unusable) {
  t.test(`where the store ${what}, what was used beyond has failed, in the log, too`, async (t) => {
    const later: Partial<QuotaStore> = {}
    const { app, log, ...host } = await createServices(t, { tokens }, (store) => ({
      ...store,
      acquire: (demands) => (later.acquire ?? store.acquire)(demands)
    }))
    const handed = await host.acquire()
    const other = await app.quotaAcquire(mira, { tokens: 10 })
    const resumed = app.quotaResume(await handed.handOver())
    later.acquire = acquire
    const messages = await settlements(async () => {
      for (const permit of [resumed, other]) {
        await permit.charge(75)
        await permit.end()
      }
    })
    matchExactly(t, messages, [{ used: 75, failed: true }, { used: 75, failed: true }])
    t.same(await host.standing(), [70, 0], 'what was granted stays counted')
    matchExactly(t, log.failures(), [{ err: { message } }, { err: { message } }])
  })
}
