// docs/rules.md, "Settlements": what is published on fastify-llm-quota:settlement.
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import {
  localAuthentication,
  MemoryQuotaStore,
  type Amounts,
  type QuotaDefinition,
  type QuotaSettlement,
  type QuotaStore
} from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { RemoteStore } from '../support/remote-store.js'
import { asAlice, createServer, nobody } from '../support/server.js'
import { setWallClock, VirtualTime } from '../support/time.js'
import { until } from '../support/until.js'

type Quotas = Record<string, QuotaDefinition>

/** Returns what is published about settlements while a function runs. */
async function settled (run: () => Promise<unknown>): Promise<QuotaSettlement[]> {
  return published<QuotaSettlement>(run, 'fastify-llm-quota:settlement')
}

type Step = 'closes' | { report: number }
type Message = Pick<QuotaSettlement, 'granted' | 'used' | 'before' | 'reported'>

function message (granted: number, used: number, before: number, reported: boolean): Message {
  return { granted, used, before, reported }
}

// Steps of a request with a cost of 5, and the messages.
const orders: [what: string, unreported: number | undefined, Step[], Message[]][] = [
  ['no report', undefined, ['closes'], [message(5, 5, 0, false)]],
  ['unreported', 2, ['closes'], [message(5, 2, 0, false)]],
  ['unreported 0', 0, ['closes'], [message(5, 0, 0, false)]],
  ['a report of less', 9, [{ report: 3 }, 'closes'], [message(5, 3, 0, true)]],
  ['a report of 0', 9, [{ report: 0 }, 'closes'], [message(5, 0, 0, true)]],
  ['reports of more', 9, [{ report: 3 }, { report: 4 }, 'closes'], [message(5, 7, 0, true)]],
  [
    'late reports',
    2,
    ['closes', { report: 3 }, { report: 4 }],
    [message(5, 2, 0, false), message(5, 3, 2, true), message(5, 7, 3, true)]
  ],
  [
    'a late report that changes nothing',
    2,
    ['closes', { report: 2 }, { report: 0 }],
    [message(5, 2, 0, false)]
  ],
  [
    'a late report of less',
    undefined,
    ['closes', { report: 1 }],
    [message(5, 5, 0, false), message(5, 1, 5, true)]
  ]
]

t.test(
  'a message is published when a permit is settled, and when a report changes it',
  async (t) => {
    for (const [what, unreported, steps, messages] of orders) {
      const tokens = { perMinute: { tokens: 50 }, cost: 5, unreported }
      const { begin, counts, app } = await createServer({ quotas: { tokens } })
      const { request, end } = await begin()
      const found = await settled(async () => {
        for (const step of steps) {
          if (step === 'closes') await end()
          else await request.quota.charge(step.report)
        }
      })
      const sum = found.reduce((sum, { used, before }) => sum + used - before, 0)
      t.same([sum], await counts(['tokens']), `${what}: the sum is what the caller is counted`)
      t.same(
        found.map(({ granted, used, before, reported }) =>
          message(granted, used, before, reported)
        ),
        messages,
        what
      )
      const callerKey = request.quota.decisions[0]?.callerKey
      for (const each of found) {
        matchExactly(t, each, { callerKey, quota: 'tokens', unit: 'tokens', failed: false })
        t.equal(each.request, request)
        t.equal(each.reference, request.id)
        t.equal(each.server, app.server)
        t.same(Object.keys(each).sort(), [
          'before',
          'callerKey',
          'failed',
          'granted',
          'quota',
          'reference',
          'reported',
          'request',
          'server',
          'unit',
          'used',
          'windowEnd'
        ])
      }
    }
  }
)

t.test('each quota of another unit than requests has a message, a shadow quota too', async (t) => {
  const quotas: Quotas = {
    tokens: { perMinute: { tokens: 50 }, cost: 5 },
    dollars: { perDay: { dollars: 50 }, cost: 6 },
    tried: { perMinute: { tokens: 7 }, cost: 7, mode: 'shadow' },
    requests: { perMinute: 50 },
    places: { concurrent: 2 },
    off: { perMinute: { tokens: 0 } }
  }
  const { begin, ask } = await createServer({ quotas })
  const first = await begin()
  const second = await begin()
  const messages = await settled(async () => {
    t.equal((await ask()).statusCode, 429)
    t.equal((await ask({ headers: nobody })).statusCode, 401)
    await first.request.quota.charge({ tokens: 1, requests: 9, images: 9 })
    await first.end()
    await second.end()
  })
  matchExactly(t, messages, [
    { request: first.request, quota: 'tokens', unit: 'tokens', used: 1 },
    { request: first.request, quota: 'dollars', unit: 'dollars', used: 6 },
    { request: first.request, quota: 'tried', unit: 'tokens', used: 1 },
    { request: second.request, quota: 'tokens', unit: 'tokens', used: 5 },
    { request: second.request, quota: 'dollars', unit: 'dollars', used: 6 }
  ])
})

t.test('windowEnd is the end of the window that counted the admission', async (t) => {
  const set = setWallClock(t)
  set('2026-11-25T12:00Z')
  const quotas: Quotas = {
    minute: { perMinute: { tokens: 50 }, cost: 5 },
    month: { perMonth: { tokens: 50 }, cost: 5 },
    tokyo: { perDay: { tokens: 50 }, cost: 5, timeZone: () => 'Asia/Tokyo' }
  }
  const { begin, clock } = await createServer({ quotas })
  await begin()
  clock.advance(20_000)
  set('2026-11-25T12:00:20Z')
  const { request, end } = await begin()
  clock.advance(7_200_000)
  set('2026-12-25T12:00Z')
  const ends = ['2026-11-25T12:01Z', '2026-12-01T00:00Z', '2026-11-25T15:00Z']
  const messages = await settled(async () => {
    await end()
    await request.quota.charge(9)
  })
  matchExactly(
    t,
    messages,
    [5, 9].flatMap((used) => ends.map((time) => ({ used, windowEnd: Date.parse(time) })))
  )
})

t.test('a permit in a handler has messages of its own, without a request for a job', async (t) => {
  const quotas: Quotas = { tokens: { perMinute: { tokens: 50 }, cost: 5 } }
  const { app, begin } = await createServer({ quotas })
  const { request, end } = await begin()
  const messages = await settled(async () => {
    const permit = await app.quotaAcquire(request, { tokens: 8 }, { reference: 'item 7' })
    await permit.charge(3)
    await permit.end()
    const job = await app.quotaAcquire(localAuthentication('bob'), 'tokens')
    await Promise.all([job.end(), job.end()])
    await job.charge({ tokens: 4 })
    const cancelled = await app.quotaAcquire(localAuthentication('bob'), 'tokens')
    await cancelled.charge(0)
    await cancelled.end()
    await app.quotaAcquire(request, { tokens: 2 })
    await end()
  })
  matchExactly(t, messages, [
    { request, reference: 'item 7', granted: 8, used: 3, before: 0, reported: true },
    { request: null, reference: null, granted: 5, used: 5, before: 0, reported: false },
    { request: null, granted: 5, used: 4, before: 5, reported: true },
    { request: null, granted: 5, used: 0, before: 0, reported: true },
    { request, granted: 5, used: 5, before: 0, reported: false },
    { request, granted: 2, used: 2, before: 0, reported: false }
  ])
})

t.test('failed says that the store did not answer, then and in later messages', async (t) => {
  const store = new RemoteStore()
  const quotas: Quotas = { tokens: { perMinute: { tokens: 50 }, cost: 5, store } }
  const { app } = await createServer({ quotas })
  const permit = await app.quotaAcquire(localAuthentication('bob'), 'tokens')
  const messages = await settled(async () => {
    store.fails = 'settle'
    await permit.end()
    store.fails = undefined
    await permit.charge(3)
    await permit.charge(3)
  })
  matchExactly(t, messages, [
    { used: 5, before: 0, failed: true },
    { used: 3, before: 5, failed: true },
    { used: 6, before: 3, failed: true }
  ])
})

t.test('a handler waits for a store that settles for 5 s at most', async (t) => {
  const time = new VirtualTime()
  const store = new RemoteStore()
  const tokens = { perMinute: { tokens: 50 }, cost: 5, store }
  const places = { concurrent: 9, store }
  const { app, counts } = await createServer({ quotas: { tokens, places } })
  const permits = await Promise.all(
    Array.from({ length: 4 }, async () => app.quotaAcquire(asAlice(), ['tokens', 'places']))
  )
  t.teardown(() => {
    time.stop()
  })
  time.start()
  store.waits = 'settle'
  const [charged, used, ended, disposed] = permits
  let left = permits.length
  const waited = [
    charged?.charge(5),
    used?.chargeUsage({ total_tokens: 5 }),
    ended?.end(),
    disposed?.[Symbol.asyncDispose]()
  ]
  for (const each of waited) {
    each?.then(() => {
      left -= 1
    })
  }
  await until('the store settles', () => store.pending === 6)
  time.advance(4950)
  for (let pass = 0; pass < 20; pass++) await turn()
  t.equal(left, 4)
  time.advance(50)
  await until('no function waits', () => left === 0)
  t.same(await counts(['tokens', 'places']), [20, 4])
  store.waits = undefined
  store.answer()
  await until('it is settled', async () => (await counts(['places']))[0] === 2)
})

t.test('what is perhaps counted beyond the grant never lowers what is counted', async (t) => {
  const store = new RemoteStore()
  const tokens = { perMinute: { tokens: 1000 }, cost: 100, unreported: 500, store }
  const { app } = await createServer({ quotas: { tokens } })
  const bob = localAuthentication('bob')
  const permit = await app.quotaAcquire(bob, 'tokens')
  const count = async () => (await app.quotaStanding(bob, 'tokens'))?.count
  store.fails = 'acquire'
  await permit.end()
  store.fails = undefined
  t.equal(await count(), 100, 'the 400 beyond the grant may not be counted')
  const counted: unknown[] = []
  for (const amount of [50, 40, 30]) {
    await permit.charge(amount)
    counted.push(await count())
  }
  t.same(counted, [50, 90, 120])
})

t.test('a report while the store settles the end is published with its own message', async (t) => {
  const store = new RemoteStore()
  store.waits = 'settle'
  const quotas: Quotas = { tokens: { perMinute: { tokens: 50 }, cost: 5, store } }
  const { app } = await createServer({ quotas })
  const permit = await app.quotaAcquire(localAuthentication('bob'), 'tokens')
  const messages = await settled(async () => {
    const ended = permit.end()
    await turn()
    const charged = permit.charge(3)
    store.answer()
    await ended
    await turn()
    store.answer()
    await charged
  })
  matchExactly(t, messages, [
    { used: 5, before: 0, reported: false },
    { used: 3, before: 5, reported: true }
  ])
})

t.test('reports of one request are settled one after another', async (t) => {
  const memory = new MemoryQuotaStore()
  let running = 0
  let most = 0
  async function answer<Result> (call: () => Result): Promise<Result> {
    running += 1
    most = Math.max(most, running)
    await new Promise(setImmediate)
    running -= 1
    return call()
  }
  const store: QuotaStore = {
    acquire: async (demands) => answer(() => memory.acquire(demands)),
    settle: async (...given) => {
      await answer(() => memory.settle(...given))
    },
    peek: memory.peek.bind(memory)
  }
  const quotas: Quotas = { tokens: { perMinute: { tokens: 500 }, cost: 5, store } }
  const { begin, counts } = await createServer({ quotas })
  const { request, end } = await begin()
  await end()
  const amounts: Amounts[] = [1, { tokens: 20 }, 3, 0, 40]
  const messages = await settled(async () => {
    await Promise.all(amounts.map(async (amount) => request.quota.charge(amount)))
  })
  t.equal(most, 1, 'the store is never asked while it has yet to answer')
  t.equal(messages.at(-1)?.used, 64)
  let before: number | undefined
  for (const message of messages) {
    if (before !== undefined) t.equal(message.before, before)
    before = message.used
  }
  t.same(await counts(['tokens']), [64])
})
