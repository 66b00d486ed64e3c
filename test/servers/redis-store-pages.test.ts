// Quotas with more callers than a script looks at, and many requests in one script.
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import type { Acquisitions } from '../../lib/store/store.js'
import { VirtualClock } from '../../lib/testing.js'
import { acquireOne, demand } from '../support/demands.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)
const countersKey = 'llm-quota:{llm-quota:}v9:windows:default'
t.beforeEach(async () => {
  await client.flushall()
})

const names = (kind: string, count: number) =>
  Array.from({ length: count }, (_, number) => `${kind}-${number}`)

/** What is decided on each demand of a request. */
function decisions (acquisitions: Acquisitions) {
  return acquisitions.map((acquisition) => {
    const { admitted, granted, count, held, windowRemaining } = acquisition ?? {}
    return { admitted, granted, count, held, windowRemaining }
  })
}

/** A store with callers who were last seen some time ago, and its clock. */
async function filledStore (count: number) {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  const store = new RedisQuotaStore({ client, clock: clock.now, rememberRejections: false })
  const callers = names('caller', count)
  await Promise.all(callers.map((caller) => acquireOne(store, caller)))
  return { clock, store, callers }
}

t.test('dead counters make nobody wait: a call that opens a window removes a thousand at most',
  async (t) => {
    const { clock, store } = await filledStore(2_500)
    clock.advance(120_000)
    let left = 2_500
    for (const caller of ['one', 'two', 'three']) {
      await acquireOne(store, caller)
      const rows = await client.hlen(countersKey)
      const removed = left + 1 - rows
      t.ok(removed <= 1_000, `${removed} are removed`)
      left = rows
    }
    // It stops when it draws more living ones by chance, rarely as long as there are many dead.
    t.ok(left <= 200, `${left} are left`)
  }
)

t.test('while callers come and go, fewer counters are dead than callers have come lately',
  async (t) => {
    const { clock, store } = await filledStore(0)
    let most = 0
    for (const minute of Array(20).keys()) {
      const callers = names(`caller of ${minute}`, 100)
      for (const caller of callers) await acquireOne(store, caller)
      most = Math.max(most, await client.hlen(countersKey))
      clock.advance(60_000)
    }
    // Those of two minutes are not dead.
    t.ok(most <= 400, `${most} counters`)
  }
)

t.test('a counter whose window was opened again is not dead', async (t) => {
  const { clock, store } = await filledStore(3)
  clock.advance(60_000)
  await acquireOne(store, 'caller-0')
  clock.advance(60_000)
  await acquireOne(store, 'newcomer')
  t.same((await client.hkeys(countersKey)).sort(), [
    'caller-0',
    'newcomer'
  ])
})

t.test("a counter of a time zone is not dead before its window is over by the server's clock",
  async (t) => {
    const { clock, store } = await filledStore(0)
    const date = Date.now()
    // For its process, whose clock is ahead, a window of an hour ends in two.
    const zoned = { window: 3_600_000, start: date - 1, end: date + 7_200_000 }
    await acquireOne(store, 'alice', zoned)
    clock.advance(7_200_000)
    await acquireOne(store, 'bob')
    t.match(await store.peek(demand('alice', zoned)), { count: 1 })
  }
)

t.test('list and clearCounters work with several pages', async (t) => {
  const { store, callers } = await filledStore(3_500)
  const listed = new Set<string>()
  let cursor: string | undefined
  do {
    const page = await store.list('default', cursor)
    for (const { callerKey } of page.callers) listed.add(callerKey)
    cursor = page.cursor ?? undefined
  } while (cursor !== undefined)
  t.same([...listed].sort(), [...callers].sort())
  await store.clearCounters()
  t.same(await client.keys('*'), [])
})

t.test('128 requests with ten quotas, each other than the last, are decided as in memory',
  async (t) => {
    const clock = new VirtualClock()
    const store = new RedisQuotaStore({ client, rememberRejections: false, clock: clock.now })
    const memory = new MemoryQuotaStore({ clock: clock.now })
    const quotas = names('quota', 10)
    // A known caller follows each new one, and each of the requests has other settings.
    const requests = (from: number) =>
      Array.from({ length: 128 }, (_, request) => {
        const caller = request % 2 === 0 ? `new ${from + request}` : `caller ${request % 7}`
        const limit = 3 + (request % 5)
        const least = request % 3
        return quotas.map((counters, index) =>
          demand(caller, {
            counters,
            limit,
            least,
            most: 3,
            isEstimate: request % 2 === 0,
            unit: index % 2 === 0 ? 'tokens' : 'microdollars'
          })
        )
      })
    for (const round of [0, 1, 2]) {
      const asked = requests(round * 100)
      const found = await Promise.all(asked.map((demands) => store.acquire(demands)))
      const expected = asked.map((demands) => memory.acquire(demands))
      t.same(found.map(decisions), expected.map(decisions))
      clock.advance(60_000)
    }
  }
)
