// The Redis store remembers rejections for a second, unless rememberRejections is false.
import t from 'tap'
import { RedisQuotaStore, type RedisQuotaStoreOptions } from '../../lib/redis.js'
import { adaptClient } from '../../lib/store/redis/clients.js'
import { VirtualClock } from '../../lib/testing.js'
import { matchExactly } from '../support/match-exactly.js'
import { commandsDuring, startRedis } from '../support/redis-server.js'
import { acquireOne, demand } from '../support/told-store.js'
import { until } from '../support/until.js'

const { client } = await startRedis(t)
t.beforeEach(async () => {
  await client.flushall()
})
const limit = 1

function create (options: Partial<RedisQuotaStoreOptions> = {}) {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  return { clock, store: new RedisQuotaStore({ client, clock: clock.now, ...options }) }
}

/** Whether the store answers without asking the server. */
const remembers = (store: RedisQuotaStore, caller: string, more = {}) =>
  !(store.acquire([demand(caller, { limit, ...more })]) instanceof Promise)

/** Sends requests of each caller with a limit of 1, the last of which is rejected by the server. */
async function exhaust (store: RedisQuotaStore, ...callers: string[]): Promise<void> {
  for (const caller of callers) {
    for (let request = 0; request < 2; request++) await acquireOne(store, caller, { limit })
  }
}

t.test('a flood over the limit costs the server one decision a second', async (t) => {
  const { clock, store } = create()
  await exhaust(store, 'alice')
  const { evalsha = 0 } = await commandsDuring(client, async () => {
    for (let time = 0; time < 3_000; time += 10) {
      matchExactly(t, await store.acquire([demand('alice', { limit })]), [
        { admitted: false, count: 1, windowRemaining: 60_000 - time }
      ])
      clock.advance(10)
    }
  })
  t.equal(evalsha, 2)
})

t.test(
  'a request is rejected from memory if it does not fit beside the count, with null for ' +
    'its other demands',
  async (t) => {
    const { store } = create()
    await acquireOne(store, 'alice', { limit: 10, least: 7, most: 7 })
    const four = { limit: 10, least: 4, most: 4 }
    t.match(await acquireOne(store, 'alice', four), { admitted: false, count: 7 })
    t.same(
      store.acquire([demand('bob'), demand('alice', { ...four, counters: 'default' })]),
      [
        null,
        {
          admitted: false,
          granted: 0,
          count: 7,
          held: 0,
          windowRemaining: 60_000,
          overflow: false,
          isRemembered: true
        }
      ]
    )
    matchExactly(
      t,
      store.acquire([demand('alice', { limit: 7, least: 0, most: 0 })]),
      [{ admitted: false, count: 7 }],
      'also beside a lowered limit'
    )
    t.equal(await store.peek(demand('bob')), null)
    t.match(
      await acquireOne(store, 'alice', { limit: 10, least: 3, most: 3 }),
      { admitted: true, count: 10 },
      'a smaller one fits'
    )
    t.match(
      await acquireOne(store, 'alice', { limit: Number.MAX_SAFE_INTEGER, least: 5, most: 5 }),
      { count: 15 },
      'the greatest limit has room'
    )
  }
)

t.test('forget of another process, a release and a later end take effect', async (t) => {
  const { clock, store } = create()
  const day = { limit, window: 90_000_000, end: 2e12 }
  const other = new RedisQuotaStore({ client, clock: clock.now })
  await exhaust(store, 'alice')
  await other.forget('alice', 'default')
  clock.advance(999)
  t.ok(remembers(store, 'alice'))
  clock.advance(1)
  t.match(await acquireOne(store, 'alice', { limit }), { admitted: true, count: 1 })
  for (let request = 0; request < 2; request++) await acquireOne(store, 'bob', day)
  matchExactly(t, store.acquire([demand('bob', day)]), [
    { admitted: false, count: 1, windowRemaining: null, end: day.end, overflow: false }
  ])
  t.match(await acquireOne(store, 'bob', { ...day, end: day.end + 1 }), {
    admitted: true,
    count: 1
  })
})

t.test(
  'no rejection is remembered beyond the window, if the option is false, or by the ' +
    'overflow counter',
  async (t) => {
    const { clock, store } = create()
    await acquireOne(store, 'alice', { limit })
    clock.advance(59_999)
    await exhaust(store, 'alice')
    clock.advance(1)
    t.match(await acquireOne(store, 'alice', { limit }), { admitted: true, count: 1 })
    for (const options of [{ rememberRejections: false }, { maxTrackedCallers: 1 }]) {
      const { store } = create({ ...options, keyPrefix: `${Object.keys(options)}:` })
      await exhaust(store, 'alice', 'bob')
      t.notOk(remembers(store, 'bob'))
    }
  }
)

t.test('rejections are remembered for at most as many callers as can be tracked', async (t) => {
  const { store } = create({ maxTrackedCallers: 2 })
  await exhaust(store, 'alice', 'bob')
  await client.flushall()
  await exhaust(store, 'carol')
  t.same(
    ['alice', 'bob', 'carol'].map((caller) => remembers(store, caller)),
    [false, true, true],
    'the oldest is evicted'
  )
})

// A rejection that arrived after the counters were cleared was remembered, so its caller was still
// rejected.
for (const relieve of ['forget', 'clearCounters'] as const) {
  for (const isOvertaking of [true, false]) {
    t.test(
      `a rejection that ${isOvertaking ? 'overtakes' : 'arrives after the end of'} ` +
        `${relieve} is not remembered`,
      async (t) => {
        const { evaluateDigest, evaluateSource } = adaptClient(client)
        let release = (): void => {}
        let held: Promise<void> | undefined
        let decisions = 0
        // The script of forget and clearCounters is sent as source first, that of the decision by
        // its digest.
        const store = new RedisQuotaStore({
          client: {
            async evaluateSource (...asked) {
              if (isOvertaking) await held
              return evaluateSource(...asked)
            },
            async evaluateDigest (...asked) {
              decisions += 1
              const [reply, wait] = [evaluateDigest(...asked), isOvertaking ? undefined : held]
              await reply
              await wait
              return reply
            }
          }
        })
        await acquireOne(store, 'alice', { limit })
        held = new Promise((resolve) => {
          release = resolve
        })
        const overtaken = isOvertaking ? store[relieve]('alice', 'default') : undefined
        const decided = decisions
        const rejection = acquireOne(store, 'alice', { limit })
        await until('the server is asked', () => decisions > decided)
        const relieved = overtaken ?? store[relieve]('alice', 'default')
        await (isOvertaking ? rejection : relieved)
        release()
        t.match(await rejection, { admitted: false })
        await relieved
        held = undefined
        t.match(await acquireOne(store, 'alice', { limit }), { admitted: true, count: 1 })
      }
    )
  }
}
