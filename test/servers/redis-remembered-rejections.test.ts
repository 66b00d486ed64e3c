// What the Redis store remembers of rejections, and what removes it.
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

t.test('forget of another process takes effect after a second at most', async (t) => {
  const { clock, store } = create()
  const other = new RedisQuotaStore({ client, clock: clock.now })
  await exhaust(store, 'alice')
  await other.forget('alice', 'default')
  clock.advance(999)
  t.ok(remembers(store, 'alice'))
  clock.advance(1)
  t.match(await acquireOne(store, 'alice', { limit }), { admitted: true, count: 1 })
})

t.test('a day is remembered with its end, and the next one is not', async (t) => {
  const { store } = create()
  const day = { limit, window: 90_000_000, start: 1.9e12, end: 2e12 }
  for (let request = 0; request < 2; request++) await acquireOne(store, 'bob', day)
  matchExactly(t, store.acquire([demand('bob', day)]), [
    { admitted: false, count: 1, windowRemaining: null, end: day.end, overflow: false }
  ])
  const next = { ...day, start: day.end, end: 2.1e12 }
  t.match(await acquireOne(store, 'bob', next), { admitted: true, count: 1 })
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
