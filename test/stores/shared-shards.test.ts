// The shards of a store on servers.
import t from 'tap'
import { required } from '../../lib/required.js'
import type { Driver } from '../../lib/store/shared/driver.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import { DriverServer } from '../support/driver-server.js'
import { matchExactly } from '../support/match-exactly.js'
import { acquireOne, demand, estimate } from '../support/told-store.js'
import { until } from '../support/until.js'
import { setWallClock } from '../support/wall-clock.js'

const createStore = (shards: number) =>
  new SharedStore({}, shards, () => new DriverServer(() => 0))

const full = { limit: 1 }

/** A store with two shards, their servers, and a caller of each. Bob has used his only request. */
async function createTwo ({ rememberRejections = false } = {}) {
  const servers = [new DriverServer(() => 0), new DriverServer(() => 0)]
  const store = new SharedStore({ rememberRejections }, 2, (_cap, shard) =>
    required(servers[shard], 'the server of a shard')
  )
  const [alice, bob] = ['alice', 'bob']
  const [ofAlice, ofBob] = [store.shardOf(alice), store.shardOf(bob)]
  if (ofAlice === ofBob) throw new Error('both callers are in one shard')
  await acquireOne(store, bob, full)
  return {
    store,
    /** A request that needs 3 tokens of alice, and one request of bob. */
    ask: async (limit: object) =>
      await store.acquire([demand(alice, estimate(3)), demand(bob, limit)]),
    tokens: async () => (await store.peek(demand(alice, estimate())))?.count ?? 0,
    fail: (caller: string) => {
      const server = required(servers[store.shardOf(caller)], 'the server of a caller')
      server.decide = () => Promise.reject(new Error('the connection was lost'))
    }
  }
}

t.test('all shards have callers, and about as many, whatever the keys look like', async (t) => {
  const digits = '0123456789abcdef'
  const keys: Record<string, (index: number) => string> = {
    numbers: (index) => String(index),
    'short names': (index) => `user:${index}`,
    digests: (index) =>
      Array.from({ length: 64 }, (_, position) =>
        digits.charAt(Math.floor(Math.abs(Math.sin(index * 64 + position)) * 1e6) % 16)
      ).join('')
  }
  for (const [kind, keyOf] of Object.entries(keys)) {
    for (const shards of [2, 16, 100]) {
      const store = createStore(shards)
      const callers = new Array<number>(shards).fill(0)
      for (let index = 0; index < shards * 100; index++) {
        const shard = store.shardOf(keyOf(index))
        callers[shard] = (callers[shard] ?? 0) + 1
      }
      t.ok(Math.min(...callers) >= 40, `of ${shards}, the smallest has enough ${kind}`)
      t.ok(Math.max(...callers) <= 160, `of ${shards}, the largest has not too many ${kind}`)
    }
  }
})

t.test('the shard of a caller is the same in every process', async (t) => {
  const callers = ['alice', 'bob', 'zo\u00eb', '']
  const shards = callers.map((caller) => createStore(16).shardOf(caller))
  t.same(shards, [7, 4, 7, 5])
})

t.test('the caller caps of the shards are together that of the store', async (t) => {
  const caps: number[] = []
  const store = new SharedStore({ maxTrackedCallers: 10 }, 4, (cap) => {
    caps.push(cap)
    return new DriverServer(() => 0)
  })
  t.same(caps, [3, 3, 2, 2])
  t.equal(store.maxTrackedCallers, 10)
})

t.test('what one shard has counted is settled with 0 where another one rejects', async (t) => {
  const { store, ask, tokens } = await createTwo()
  await acquireOne(store, 'alice', estimate(1))
  matchExactly(t, await ask(full), [
    { admitted: true, count: 1, held: 1, granted: 0 },
    { admitted: false, count: 1 }
  ])
  await until('it is settled', async () => (await tokens()) === 1)
  const exactly = demand('alice', estimate(3, { isEstimate: false }))
  matchExactly(
    t,
    await store.acquire([exactly, demand('bob', full)]),
    [{ admitted: true, count: 1, held: 1, granted: 0 }, { admitted: false }],
    'what is no estimate leaves held what others hold'
  )
})

t.test('what a shard, another one or the memory rejects can be settled, which does nothing',
  async (t) => {
    const { store, ask, tokens } = await createTwo({ rememberRejections: true })
    const rejected = [await ask(full), await ask(full)].flat()
    t.match(rejected, [{ admitted: true, granted: 0 }, {}, null, { isRemembered: true }])
    for (const each of rejected) if (each !== null) await store.settle(each, 0)
    await until('what was counted is settled', async () => (await tokens()) === 0)
    t.match(await store.peek(demand('bob')), { count: 1 })
  }
)

t.test('what one shard has counted is settled with 0 where another one fails', async (t) => {
  const { ask, tokens, fail } = await createTwo()
  fail('bob')
  await t.rejects(ask(full), { message: 'the connection was lost' })
  await until('it is settled', async () => (await tokens()) === 0)
})

t.test('a request that one shard rejects is rejected, although another one fails', async (t) => {
  const { ask, fail } = await createTwo()
  fail('alice')
  matchExactly(t, await ask(full), [null, { admitted: false, count: 1 }])
  await t.rejects(ask({ limit: 2 }), { message: 'the connection was lost' })
})

t.test('inspect, list and clearCounters cover all shards, and each page of each', async (t) => {
  const servers = [new DriverServer(() => 0), new DriverServer(() => 0)]
  const store = new SharedStore({}, 2, (_cap, shard) => {
    const server = required(servers[shard], 'the server of a shard')
    server.list = async (_counters, cursor) => ({
      callers: [{ callerKey: `${shard} ${cursor}`, count: 1, held: 0, windowRemaining: 1 }],
      cursor: cursor === null ? 'page:2' : null
    })
    return server
  })
  for (const caller of ['alice', 'bob', 'carol']) await acquireOne(store, caller)
  t.same(await store.inspect('default'), { trackedCallers: 3, sweeps: 0 })
  const listed: string[] = []
  for (let cursor: string | undefined | null; cursor !== null;) {
    const page = await store.list('default', cursor)
    listed.push(...page.callers.map(({ callerKey }) => callerKey))
    cursor = page.cursor
  }
  t.same(listed, ['0 null', '0 page:2', '1 null', '1 page:2'])
  await store.clearCounters()
  t.same(await store.inspect('default'), { trackedCallers: 0, sweeps: 0 })
})

t.test('list asks with the date of the process, by which days of a time zone end', async (t) => {
  const date = setWallClock(t)('2026-11-25T12:00Z')
  const server: Driver = new DriverServer(() => 0)
  const dates: number[] = []
  server.list = async (_counters, _cursor, _time, asked) => {
    dates.push(asked)
    return { callers: [], cursor: null }
  }
  await new SharedStore({ clock: () => 0 }, 1, () => server).list('default')
  t.same(dates, [date])
})
