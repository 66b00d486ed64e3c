// An insured store whose primary has shards: each is on the primary or on the fallback by itself.
import t from 'tap'
import { matchExactly } from '../support/match-exactly.js'
import {
  answered,
  demand,
  estimate,
  insure,
  place,
  publishedChanges
} from '../support/told-store.js'

t.test('the callers of the other shards are not affected when one shard fails', async (t) => {
  const { clock, primary, store, countOf } = insure()
  const published = publishedChanges(t)
  const askAll = () => Promise.all(['a0', 'a1', 'a2'].map((caller) => countOf(caller)))
  t.same(store.shards, { primary: [], fallback: [] })
  t.same(await askAll(), [77, 77, 77])
  t.same(store.shards, { primary: [0, 1, 2], fallback: [] })
  primary.manners.set(1, 'hangs')
  t.same(await askAll(), [77, 1, 77])
  t.same(await askAll(), [77, 2, 77])
  t.equal(store.state, 'both')
  t.same(store.shards, { primary: [0, 2], fallback: [1] })
  t.match(
    await store.peek?.(demand('a1')),
    { count: 2 },
    'peek reads the store that decides on the caller'
  )
  t.match(await store.peek?.(demand('a0')), { count: 77 })

  for (const shard of [0, 2]) primary.manners.set(shard, 'throws')
  t.same(await askAll(), [1, 3, 1])
  t.equal(store.state, 'fallback')
  clock.advance(100)
  for (const shard of [0, 1]) primary.manners.set(shard, 'promises')
  t.same(await askAll(), [77, 77, 2])
  clock.advance(100)
  primary.manners.set(2, 'promises')
  t.same(await askAll(), [77, 77, 77])
  t.equal(store.state, 'primary')
  t.same(store.decisions, { primary: 3 + 2 + 2 + 2 + 3, fallback: 1 + 1 + 3 + 1 })
  t.same(
    published.map(({ shard, state }) => [shard, state]),
    [
      [1, 'fallback'],
      [0, 'fallback'],
      [2, 'fallback'],
      [0, 'primary'],
      [1, 'primary'],
      [2, 'primary']
    ],
    'each change of a shard is published once'
  )
})

t.test(
  'as long as the primary decides for one shard, list and inspect read it, and not the fallback',
  async (t) => {
    const { primary, store, countOf } = insure()
    t.equal(store.state, 'primary', 'before the first call')
    primary.manners.set(1, 'throws')
    const read = async () => [await store.list?.('default'), await store.inspect?.('default')]
    for (const caller of ['a0', 'a1']) await countOf(caller)
    t.equal(store.state, 'both')
    matchExactly(t, await read(), [
      { callers: [{ callerKey: 'default 0', count: 77 }] },
      { trackedCallers: 77 }
    ])
    primary.manners.set(0, 'throws')
    await countOf('a0')
    t.equal(store.state, 'fallback')
    matchExactly(t, await read(), [
      { callers: [{ callerKey: 'a1', count: 1 }, { callerKey: 'a0', count: 1 }] },
      { trackedCallers: 2 }
    ])
  }
)

t.test('a request in several shards that hang waits for them at the same time', async (t) => {
  const { clock, primary, store } = insure()
  primary.manner = 'hangs'
  const asked = store.acquire(['a0', 'a1', 'a2'].map((caller) =>
    demand(caller, { counters: caller })))
  matchExactly(t, await answered(clock, asked), [{ count: 1 }, { count: 1 }, { count: 1 }])
  t.ok(clock.now() < 60, 'it waits for one timeout of 30 ms')
})

t.test('a primary whose shardOf returns no number, such as a promise, is an error', async (t) => {
  const { store } = insure()
  Object.assign(store.primary, { shardOf: async () => 0 })
  const message = /shardOf of the primary store must return an integer .* it got/
  await t.rejects(async () => store.acquire([demand('alice')]), message)
  await t.rejects(async () => store.peek?.(demand('alice')), message)
  t.same(store.shards, { primary: [], fallback: [] })
})

t.test(
  'the primary is called once for each shard, and a part is settled with 0 if another rejects',
  async (t) => {
    const { primary, fallback, store } = insure()
    const demands = [demand('a0'), demand('a1', estimate(3)), demand('a0', place())]
    matchExactly(t, await store.acquire(demands), [
      { admitted: true, count: 77 },
      { admitted: true, count: 77 },
      { admitted: true, count: 77 }
    ])
    t.equal(primary.asked, 2)
    primary.manners.set(1, 'throws')
    matchExactly(
      t,
      await store.acquire(demands),
      [{ count: 77 }, { admitted: true, count: 3 }, { count: 77 }],
      'each part is decided by the store that decides on its shard'
    )
    matchExactly(t, await store.acquire(demands), [
      { admitted: true, count: 76 },
      { admitted: false, count: 3 },
      { admitted: true, count: 76 }
    ])
    t.same(primary.told, ['settle 77 with 0', 'settle 77 with 0'])
    primary.manners.set(0, 'answers')
    primary.admitted = false
    const lower = demands.map((each) => ({ ...each, limit: each.limit + 2 }))
    matchExactly(
      t,
      await store.acquire(lower),
      [{ admitted: false }, { admitted: true, count: 3 }, { admitted: false }],
      'the fallback settles with 0'
    )
    matchExactly(t, demands.map((each) => fallback.peek(each)?.count), [undefined, 3, 0])
  }
)

t.test('what one shard rejects can be settled in each of them, which does nothing', async (t) => {
  const { primary, store } = insure()
  primary.manners.set(1, 'throws')
  const demands = [demand('a0'), demand('a1', estimate(3))]
  await store.acquire(demands)
  const rejected = await store.acquire(demands)
  matchExactly(t, rejected, [{ admitted: true, granted: 0 }, { admitted: false, count: 3 }])
  for (const each of rejected) if (each !== null) await store.settle?.(each, 0)
  t.same(primary.told, ['settle 77 with 0'], 'only what was counted')
  t.match(await store.peek?.(demand('a1', estimate())), { count: 3 })
})
