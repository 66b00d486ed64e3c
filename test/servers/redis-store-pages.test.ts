// Sweeps of quotas with more callers than a script looks at, and many requests in one script.
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { VirtualClock } from '../../lib/testing.js'
import { compareWithMemory } from '../support/compare-stores.js'
import { matchExactly } from '../support/match-exactly.js'
import { startRedis } from '../support/redis-server.js'
import { acquireOne, demand } from '../support/told-store.js'

const { client } = await startRedis(t)
t.beforeEach(async () => {
  await client.flushall()
})

const names = (kind: string, count: number) =>
  Array.from({ length: count }, (_, number) => `${kind}-${number}`)
/** A store whose cap is reached by callers who were last seen some time ago, and its clock. */
async function fullStore (maxTrackedCallers: number, ago = 120_000) {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  const store = new RedisQuotaStore({
    client,
    clock: clock.now,
    maxTrackedCallers,
    rememberRejections: false
  })
  const callers = names('caller', maxTrackedCallers)
  await Promise.all(callers.map((caller) => acquireOne(store, caller)))
  clock.advance(ago)
  return { clock, store, callers }
}

t.test('a sweep makes nobody wait: each call looks at a thousand counters', async (t) => {
  const { store } = await fullStore(5_000)
  const left = []
  for (let call = 0; call < 6; call++) {
    const unlimited = { limit: 1_000 }
    t.match(await acquireOne(store, 'newcomer', unlimited), { overflow: false, count: call + 1 })
    left.push((await store.inspect('default')).trackedCallers)
  }
  t.ok(
    left.slice(0, 4).every((callers, index) => callers > 5_000 - 1_300 * (index + 1)),
    `${left.join()} are left`
  )
  t.equal(left.at(-1), 1)
  t.match(await store.inspect('default'), { trackedCallers: 1, sweeps: 1 })
})

t.test('a call looks at a thousand counters of all its quotas together', async (t) => {
  const { clock, store, callers } = await fullStore(3_000, 0)
  const some = callers.slice(0, 900)
  await Promise.all(some.map((caller) => acquireOne(store, caller, { counters: 'other' })))
  clock.advance(120_000)
  await store.acquire([demand('newcomer', { counters: 'other' }), demand('newcomer')])
  const states = [await store.inspect('default'), await store.inspect('other')]
  matchExactly(t, states, [{ sweeps: 1 }, { sweeps: 1 }])
  const left = states.reduce((sum, { trackedCallers }) => sum + trackedCallers, 0)
  t.ok(left > 3_900 - 1_300, `${left} are left`)
})

t.test(
  'a new caller at the cap uses the overflow counter until the sweep has found a dead counter, ' +
    'and peek says so',
  async (t) => {
    const { clock, store, callers } = await fullStore(5_000, 1_000)
    // Only one of the callers will be dead, which the first page of the sweep does not have.
    const [, first] = await client.hscan('llm-quota:{0}:windows:default', 0, 'COUNT', 1_000)
    const dead = callers.find((caller) => !first.includes(caller))
    const others = callers.filter((caller) => caller !== dead)
    await Promise.all(others.map((caller) => acquireOne(store, caller)))
    clock.advance(119_000)
    const newcomer = demand('newcomer')
    const overflow: boolean[] = []
    for (let call = 0; call < 8; call++) {
      const peeked = await store.peek(newcomer)
      const acquired = await acquireOne(store, 'newcomer', { limit: 1_000 })
      overflow.push(acquired.overflow)
      // The first one opens the window of the overflow counter.
      if (call > 0) t.equal(peeked === null, !acquired.overflow, 'peek looks at the same page')
      if (!acquired.overflow) break
    }
    t.same([overflow[0], overflow.at(-1)], [true, false])
    t.match(await store.inspect('default'), { trackedCallers: 5_000, sweeps: 1 })
  }
)

t.test('a sweep that is due while another one is under way begins after it', async (t) => {
  const day = { window: 86_400_000, limit: 1_000 }
  const { clock, store, callers } = await fullStore(5_000, day.window)
  // No counter of the first page will be dead.
  const [, first] = await client.hscan('llm-quota:{0}:windows:default', 0, 'COUNT', 1_000)
  const alive = callers.filter((caller) => first.includes(caller))
  await Promise.all(alive.map((caller) => acquireOne(store, caller, day)))
  for (let call = 0; call < 12; call++) {
    clock.advance(60_000)
    await acquireOne(store, alive[0] ?? '', day)
  }
  const { trackedCallers } = await store.inspect('default')
  t.equal(trackedCallers, alive.length, 'all pages were looked at')
})

t.test('peek, list, forget and clearCounters work at a cap of several pages', async (t) => {
  const { store, callers } = await fullStore(3_500, 30_000)
  const listed = new Set<string>()
  let cursor: string | undefined
  do {
    const page = await store.list('default', cursor)
    for (const { callerKey } of page.callers) listed.add(callerKey)
    cursor = page.cursor ?? undefined
  } while (cursor !== undefined)
  t.same([...listed].sort(), [...callers].sort())
  await acquireOne(store, 'newcomer')
  t.match(await store.peek(demand('newcomer')), { count: 1, overflow: true })
  await store.forget('caller-0', 'default')
  t.equal(await store.peek(demand('newcomer')), null, 'there is room for one')
  t.match(await acquireOne(store, 'newcomer'), { overflow: false, count: 1 })
  await store.clearCounters()
  t.same(await client.keys('*'), [])
})

t.test(
  '128 requests with ten quotas at the cap, in the worst order, are decided as in memory',
  async (t) => {
    const clock = new VirtualClock()
    const options = { clock: clock.now, maxTrackedCallers: 50 }
    const store = new RedisQuotaStore({ client, rememberRejections: false, ...options })
    const memory = new MemoryQuotaStore(options)
    const quotas = names('quota', 10)
    // A known caller follows each new one, and each of the requests has other settings.
    const requests = (from: number) =>
      Array.from({ length: 128 }, (_, request) => {
        const caller = request % 2 === 0 ? `new ${from + request}` : `caller ${request % 7}`
        const limit = 3 + (request % 5)
        const least = request % 3
        return quotas.map((counters) =>
          demand(caller, { counters, limit, least, most: 3, isEstimate: request % 2 === 0 })
        )
      })
    for (const round of [0, 1, 2]) {
      const acquisitions = await compareWithMemory(store, memory, requests(round * 100))
      t.equal(acquisitions.length, 1_280)
      clock.advance(60_000)
    }
  }
)
