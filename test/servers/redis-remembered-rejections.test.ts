// The Redis store remembers rejections unless rememberRefusals is false.
import t from 'tap'
import { InsuredQuotaStore } from '../../lib/index.js'
import { RedisQuotaStore, type RedisQuotaStoreOptions } from '../../lib/redis.js'
import { adaptIoredis } from '../../lib/store/redis/clients/ioredis.js'
import { VirtualClock } from '../../lib/testing.js'
import { commandsDuring, startRedis } from '../support/redis-server.js'
import { publishedChanges } from '../support/told-store.js'

const { client } = await startRedis(t)
t.beforeEach(async () => { await client.flushall() })

const minute = 60_000
const day = 1_440 * minute

function create (options: Partial<RedisQuotaStoreOptions> = {}) {
  const clock = new VirtualClock()
  return { clock, store: new RedisQuotaStore({ client, clock: clock.now, ...options }) }
}

/** Sends requests of each caller with a limit of 1, the last of which is rejected by the server. */
async function exhaust (store: RedisQuotaStore, ...callers: string[]): Promise<void> {
  for (const caller of callers) for (let request = 0; request < 2; request++) await store.acquire(caller, 1)
}

t.test('a caller known to be at its limit is rejected without a command to the server', async (t) => {
  const { clock, store } = create()
  for (let request = 0; request < 3; request++) await store.acquire('alice', 2)
  clock.advance(1_000)
  const commands = await commandsDuring(client, async () => {
    for (let request = 0; request < 100; request++) {
      t.same(store.acquire('alice', 2), { admitted: false, count: 2, windowRemaining: 59_000, overflow: false })
    }
  })
  t.same(Object.keys(commands).filter((name) => name.startsWith('eval')), [])
})

t.test('a rejection is remembered until the window ends', async (t) => {
  const { clock, store } = create()
  await exhaust(store, 'alice')
  clock.advance(59_999)
  t.match(store.acquire('alice', 1), { admitted: false, windowRemaining: 1 })
  clock.advance(1)
  t.match(await store.acquire('alice', 1), { admitted: true, count: 1 })
})

t.test('a rejection is remembered for at most a minute, so that forget of another instance takes effect', async (t) => {
  const { clock, store } = create()
  const [one, other] = [store, create({ clock: clock.now }).store].map((store) => store.quota('daily', day))
  await one?.acquire('alice', 1)
  t.match(await one?.acquire('alice', 1), { admitted: false })
  await other?.forget('alice')
  clock.advance(minute - 1)
  t.match(one?.acquire('alice', 1), { admitted: false, windowRemaining: day - minute + 1 })
  clock.advance(1)
  t.match(await one?.acquire('alice', 1), { admitted: true, count: 1 })
})

t.test('a remembered rejection applies to a lowered limit, but not to a raised one', async (t) => {
  const { store } = create()
  for (let request = 0; request < 3; request++) await store.acquire('alice', 2)
  t.match(store.acquire('alice', 1), { admitted: false, count: 2 })
  t.match(await store.acquire('alice', 3), { admitted: true, count: 3 })
  t.match(await store.acquire('alice', 3), { admitted: false, count: 3 })
  t.match(await store.acquire('alice', 2), { admitted: false, count: 3 })
})

t.test('a charge reaches the server although a rejection is remembered, and the rejection stays remembered', async (t) => {
  const { store } = create()
  await store.acquire('alice', 10, 20)
  t.match(await store.acquire('alice', 10, 0), { admitted: false, count: 20 })
  t.match(store.acquire('alice', 10, 0), { admitted: false, count: 20 }, 'from memory')
  t.match(await store.acquire('alice', Number.MAX_SAFE_INTEGER, 5), { admitted: true, count: 25 })
  t.match(store.acquire('alice', 10, 0), { admitted: false }, 'from memory')
})

t.test('no rejection is remembered if the option is false, or by the overflow counter', async (t) => {
  for (const options of [{ rememberRefusals: false }, { maxTrackedCallers: 1 }]) {
    const { store } = create(options)
    await exhaust(store, 'alice', 'bob')
    t.ok(store.acquire('bob', 1) instanceof Promise)
    await store.clearCounters()
  }
})

t.test('rejections are remembered for at most as many callers as can be tracked', async (t) => {
  const { store } = create({ maxTrackedCallers: 2 })
  await exhaust(store, 'alice', 'bob')
  await client.flushall()
  await exhaust(store, 'carol')
  t.ok(store.acquire('alice', 1) instanceof Promise, 'the oldest rejection has been removed')
  t.notOk(store.acquire('bob', 1) instanceof Promise)
  t.notOk(store.acquire('carol', 1) instanceof Promise)
})

t.test('a remembered rejection uses the clock of the process if the store uses the clock of the server', async (t) => {
  const store = new RedisQuotaStore({ client })
  await exhaust(store, 'alice')
  const remembered = store.acquire('alice', 1)
  t.match(remembered, { admitted: false, count: 1 })
  t.ok(!(remembered instanceof Promise) && remembered.windowRemaining > 50_000 && remembered.windowRemaining <= 60_000)
})

// A rejection that arrived after the counters were cleared was remembered, so its caller was still rejected.
for (const relieve of ['forget', 'clearCounters'] as const) {
  t.test(`${relieve} removes remembered rejections`, async (t) => {
    const { store } = create()
    await exhaust(store, 'alice')
    const relieved = store[relieve]('alice')
    t.match(await store.acquire('alice', 1), { admitted: true, count: 1 }, 'from the next request on')
    await relieved
  })

  t.test(`a rejection that is in flight during ${relieve} is not remembered`, async (t) => {
    const store = new RedisQuotaStore({ client })
    await store.acquire('alice', 1)
    const rejection = store.acquire('alice', 1)
    const relieved = store[relieve]('alice')
    t.match(await rejection, { admitted: false })
    await relieved
    t.match(await store.acquire('alice', 1), { admitted: true, count: 1 })
  })

  for (const isOvertaking of [true, false]) {
    t.test(`a rejection that ${isOvertaking ? 'overtakes' : 'arrives after the end of'} ${relieve} on another connection is not remembered`, async (t) => {
      const adapted = adaptIoredis(client)
      let release = () => {}
      const held = new Promise<void>((resolve) => { release = resolve })
      let isHolding = false
      const store = new RedisQuotaStore({
        client: {
          async evaluateDigest (digest, key, parameters) {
            const isHeld = isHolding && !isOvertaking
            const reply = await adapted.evaluateDigest(digest, key, parameters)
            if (isHeld) await held
            return reply
          },
          // The script of forget is sent as source first.
          async evaluateSource (source, key, parameters) {
            if (isHolding && isOvertaking) await held
            return adapted.evaluateSource(source, key, parameters)
          },
          async removeKey (key) {
            if (isHolding && isOvertaking) await held
            return adapted.removeKey(key)
          }
        }
      })
      await store.acquire('alice', 1)
      isHolding = true
      const overtaken = isOvertaking ? store[relieve]('alice') : undefined
      const rejection = store.acquire('alice', 1)
      const relieved = overtaken ?? store[relieve]('alice')
      isHolding = false
      await (isOvertaking ? rejection : relieved)
      release()
      t.match(await rejection, { admitted: false })
      await relieved
      t.match(await store.acquire('alice', 1), { admitted: true, count: 1 })
    })
  }
}

// While the server was down, a caller at its limit made an insured store switch to its primary and back in every cool-down, because a
// remembered rejection of the primary was treated as an answer of the server.
t.test('a rejection that the primary remembers does not end an outage', async (t) => {
  const { server, client } = await startRedis(t)
  const published = publishedChanges(t)
  const states = () => published.map(({ state }) => state)
  // The cool-down ends as soon as it begins.
  const store = new InsuredQuotaStore({ primary: new RedisQuotaStore({ client }), timeout: 2_000, coolDown: Number.MIN_VALUE })
  await store.acquire('flooding', 1)
  t.match(await store.acquire('flooding', 1), { admitted: false })
  await server.kill()
  t.match(await store.acquire('other', 5), { admitted: true })
  t.same(states(), ['fallback'])
  for (let round = 0; round < 20; round++) {
    t.match(await store.acquire('flooding', 1), { admitted: false }, 'rejected from memory')
    await store.acquire('other', 5)
  }
  t.same(states(), ['fallback'], 'the outage is one change of state')
  t.equal(store.state, 'fallback')

  await server.start()
  for (let attempt = 0; attempt < 10_000 && store.state === 'fallback'; attempt++) await store.acquire('third', 5)
  t.same(states(), ['fallback', 'primary'], 'an answer of the server ends it')
})
