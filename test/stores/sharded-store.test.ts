// A store made of several stores, among which callers are divided.
import t from 'tap'
import { localAuthentication } from '../../lib/caller/authentication.js'
import { callerKey } from '../../lib/caller/caller-key.js'
import { hasFunction } from '../../lib/option-checks.js'
import { required } from '../../lib/required.js'
import { InsuredQuotaStore } from '../../lib/store/insured/insured-store.js'
import { MemoryQuotaStore } from '../../lib/store/memory/memory-store.js'
import { ShardedQuotaStore } from '../../lib/store/sharded/sharded-store.js'
import type { CallerPage, QuotaStore } from '../../lib/store/store.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'
import { matchExactly } from '../support/match-exactly.js'
import { answered, publishedChanges, ToldStore } from '../support/told-store.js'

const keys = Array.from({ length: 3_000 }, (_, index) =>
  required(callerKey(localAuthentication(`caller ${index}`)), 'a caller key')
)

/** A sharded store of memory stores, and a caller of each. */
function shard (length: number) {
  const shards = Array.from({ length }, () => new MemoryQuotaStore())
  const store = new ShardedQuotaStore(shards)
  return { shards, store, callers: shards.map((_, index) => callerOf(length, index)) }
}

// Sharded stores of memory stores, by how many they are made of.
const ofLength = new Map<number, { shards: MemoryQuotaStore[]; store: ShardedQuotaStore }>()

/** Returns the shard in which a store of so many counts a caller. */
function shardOf (length: number, caller: string): number {
  let made = ofLength.get(length)
  if (made === undefined) {
    const shards = Array.from({ length }, () => new MemoryQuotaStore())
    made = { shards, store: new ShardedQuotaStore(shards) }
    ofLength.set(length, made)
  }
  made.store.acquire([demand(caller)])
  return made.shards.findIndex((each) => each.peek(demand(caller)) !== null)
}

/** Returns a caller whom the shard of this number counts. */
function callerOf (length: number, index: number): string {
  const caller = keys.find((key) => shardOf(length, key) === index)
  return required(caller, 'a caller of the shard')
}

t.test('callers are divided evenly, and a store added at the end takes its share', async (t) => {
  for (const length of [2, 5]) {
    const counts = new Map<number, number>()
    const moved: number[] = []
    for (const key of keys) {
      const before = shardOf(length, key)
      const after = shardOf(length + 1, key)
      counts.set(before, (counts.get(before) ?? 0) + 1)
      if (after !== before) moved.push(after)
    }
    t.ok(moved.every((after) => after === length), 'to the new store only')
    const share = keys.length / length
    t.ok([...counts.values()].every((count) => Math.abs(count - share) < share / 5))
    t.ok(Math.abs(moved.length - keys.length / (length + 1)) < share / 5)
  }
})

t.test('the shard of a caller is the same in every process and version', async (t) => {
  const known = ['caller 0', 'caller 1', 'caller 2', 'caller 3', 'caller 4'].map((name) =>
    shardOf(4, required(callerKey(localAuthentication(name)), 'a key')))
  t.same(known, [3, 2, 2, 0, 3])
})

t.test('a request of several shards counts in each of them, or in none', async (t) => {
  const { shards, store, callers: [one = '', other = ''] } = shard(2)
  const together = [
    demand(one, { limit: 2 }),
    demand(other, { ...estimate(3), limit: 5 }),
    demand(other, place())
  ]
  matchExactly(t, await store.acquire(together), [
    { admitted: true, granted: 1, count: 1 },
    { admitted: true, granted: 3, count: 3, held: 3 },
    { admitted: true, granted: 1, count: 1 }
  ])
  matchExactly(t, await store.acquire(together), [
    { admitted: true, granted: 0, count: 1 },
    { admitted: false, granted: 0, count: 3 },
    { admitted: true, granted: 0, count: 1 }
  ])
  t.match(shards[0]?.peek(demand(one)), { count: 1 })
  t.match(shards[1]?.peek(demand(other, place())), { count: 1 })
})

t.test('what one shard counted is given back if another one fails', async (t) => {
  const clock = new VirtualClock()
  const shards = [new ToldStore(clock), new ToldStore(clock)]
  const store = new ShardedQuotaStore(shards)
  const [one = '', other = ''] = [callerOf(2, 0), callerOf(2, 1)]
  const together = [demand(one, estimate(3)), demand(other)]
  for (const manner of ['throws', 'rejects', 'promises nonsense'] as const) {
    Object.assign(required(shards[1], 'a shard'), { manner })
    await t.rejects(async () => store.acquire(together))
  }
  const given = 'settle 3 and 3 of chat.tokens.day'
  t.same(shards.map(({ told }) => told), [[given, given, given], []])
})

t.test('a shard that rejects at once keeps the later ones from being asked', async (t) => {
  const clock = new VirtualClock()
  const shards = [new ToldStore(clock), new ToldStore(clock)]
  Object.assign(required(shards[0], 'a shard'), { manner: 'answers', admitted: false })
  const store = new ShardedQuotaStore(shards)
  const acquired = await store.acquire([demand(callerOf(2, 0)), demand(callerOf(2, 1), estimate())])
  matchExactly(t, acquired, [{ admitted: false }, null])
  t.same(shards.map(({ asked }) => asked), [1, 0])
})

t.test('ranges of one unit are granted alike, and a shard is given back the rest', async (t) => {
  const { shards, store, callers: [user = '', team = ''] } = shard(2)
  const tokens = { unit: 'tokens', least: 1, most: 4_000, isEstimate: true }
  const ofUser = demand(user, { ...tokens, counters: 'user.tokens.day', limit: 100 })
  const ofTeam = demand(team, { ...tokens, counters: 'team.tokens.day', limit: 1_000_000 })
  matchExactly(t, await store.acquire([ofUser, ofTeam]), [
    { granted: 100, count: 100, held: 100 },
    { granted: 100, count: 100, held: 100 }
  ])
  t.match(shards[1]?.peek(ofTeam), { count: 100, held: 100 })
})

t.test('an acquisition is settled in its shard, also by another process', async (t) => {
  const clock = new VirtualClock()
  const shards = [new ToldStore(clock), new ToldStore(clock), new ToldStore(clock)]
  const store = new ShardedQuotaStore(shards)
  const { receipt } = await acquireOne(store, callerOf(3, 2), estimate(4))
  t.equal(receipt, '2:chat.tokens.day')
  const sameOrder = new ShardedQuotaStore([...shards])
  t.equal(await sameOrder.settle?.(receipt, { count: 1, held: 4 }, 'x'), true)
  t.same(
    shards.map(({ told }) => told),
    [[], [], ['settle 1 and 4 of chat.tokens.day, once for x']]
  )
  const inMemory = shard(2)
  const taken = await acquireOne(inMemory.store, keys[0] ?? '', place())
  await inMemory.store.settle?.(structuredClone(taken.receipt), { count: 1, held: 1 })
  t.match(await inMemory.store.peek?.(demand(keys[0] ?? '', place())), { count: 0 })
  for (const wrong of ['3:chat.tokens.day', 'x', '', ':x', null, {}, { shard: 3, receipt: 'x' }]) {
    await t.rejects(async () => store.settle?.(wrong, { count: 1, held: 1 }), TypeError)
  }
})

t.test('list, inspect, peek, forget and clearCounters are those of one store', async (t) => {
  const { shards, store } = shard(3)
  const some = keys.slice(0, 20)
  for (const caller of some) await store.acquire([demand(caller)])
  const listAll = async () => {
    const listed: string[] = []
    let page: CallerPage | undefined = await store.list?.('default')
    while (page !== undefined) {
      listed.push(...page.callers.map((caller) => caller.callerKey))
      page = page.cursor === null ? undefined : await store.list?.('default', page.cursor)
    }
    return listed.sort()
  }
  t.same(await listAll(), [...some].sort())
  t.same(await store.inspect?.('default'), { trackedCallers: 20 })
  const [first = ''] = some
  t.match(await store.peek?.(demand(first)), { count: 1 })
  await store.forget?.('default', first)
  t.equal(await store.peek?.(demand(first)), null)
  t.same(await listAll(), some.slice(1).sort())
  await t.rejects(async () => store.forget?.(first, 'default'), TypeError)
  for (const wrong of ['', '3', 'x', '1x']) {
    await t.rejects(async () => store.list?.('default', wrong), TypeError)
  }
  await store.clearCounters?.()
  t.same(
    shards.map((each) => each.inspect('default').trackedCallers),
    [0, 0, 0]
  )
})

t.test('the pages of each shard are listed in turn, with its own cursors', async (t) => {
  const clock = new VirtualClock()
  const store = new ShardedQuotaStore([new ToldStore(clock), new MemoryQuotaStore()])
  const first = await store.list?.('default')
  matchExactly(t, first, { callers: [{ callerKey: 'default 0' }], cursor: '0:1' })
  const second = await store.list?.('default', '0:1')
  matchExactly(t, second, { callers: [{ callerKey: 'default 1' }], cursor: '0:2' })
})

t.test('a sharded store has the functions that all of its stores have', async (t) => {
  const { forget: _, ...withoutForget } = lent(new MemoryQuotaStore())
  const store = new ShardedQuotaStore([new MemoryQuotaStore(), withoutForget])
  t.same(
    ['acquire', 'settle', 'peek', 'forget'].map((name) => hasFunction(store, name)),
    [true, true, true, false]
  )
})

t.test('one of several stores needs settle, the only one does not', async (t) => {
  const { settle: _, ...withoutSettle } = lent(new MemoryQuotaStore())
  t.throws(() => new ShardedQuotaStore([new MemoryQuotaStore(), withoutSettle]), {
    code: 'FST_ERR_LLM_QUOTA_OPTION',
    message: /option stores\[1\] must be a store with a function settle; it got an object/
  })
  t.equal(hasFunction(new ShardedQuotaStore([withoutSettle]), 'settle'), false)
})

function lent (store: MemoryQuotaStore) {
  return {
    acquire: store.acquire.bind(store),
    settle: store.settle.bind(store),
    peek: store.peek.bind(store),
    forget: store.forget.bind(store)
  } satisfies QuotaStore
}

t.test('a sharded store takes a list of at least one store, each given once', async (t) => {
  const memory = new MemoryQuotaStore()
  const wrong: [unknown, RegExp][] = [
    [undefined, /option stores must be an array of at least one store; it got undefined/],
    [memory, /option stores must be an array of at least one store; it got an object/],
    [[], /option stores must be an array of at least one store/],
    [[memory, memory], /option stores\[1\] must be given once/],
    [[memory, { password: 'hidden' }], /option stores\[1\] must be a store .* it got an object$/]
  ]
  for (const [stores, message] of wrong) {
    t.throws(() => Reflect.construct(ShardedQuotaStore, [stores]), {
      code: 'FST_ERR_LLM_QUOTA_OPTION',
      message
    })
  }
})

t.test('each shard is insured by itself, and silent ones are waited for together', async (t) => {
  const clock = new VirtualClock()
  const primaries = [new ToldStore(clock), new ToldStore(clock), new ToldStore(clock)]
  const insured = primaries.map(
    (primary) => new InsuredQuotaStore({ primary, clock: clock.now, timers: clock })
  )
  const store = new ShardedQuotaStore(insured)
  const callers = primaries.map((_, index) => callerOf(3, index))
  const published = publishedChanges(t)
  for (const primary of primaries.slice(1)) primary.manner = 'hangs'
  const demands = callers.map((caller, index) => demand(caller, { counters: `quota-${index}` }))
  matchExactly(t, await answered(clock, store.acquire(demands)), [
    { count: 77 },
    { count: 1 },
    { count: 1 }
  ])
  t.ok(clock.now() < 150, `${clock.now()} ms`)
  t.same(insured.map(({ state }) => state), ['primary', 'fallback', 'fallback'])
  t.same(published.map((change) => change.store), insured.slice(1))
})
