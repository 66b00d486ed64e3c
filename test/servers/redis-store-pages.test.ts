// Cases in which the Redis store needs more than one script or command: at the cap of a large shard, and for decisions that arrive
// together.
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { RedisQuotaStore, type QuotaRedisClient } from '../../lib/redis.js'
import { adaptIoredis } from '../../lib/store/redis/clients/ioredis.js'
import { VirtualClock } from '../../lib/testing.js'
import { commandsDuring, startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)
t.beforeEach(async () => { await client.flushall() })

/** An implementation of the interface for clients, and the parameters of the scripts that it sent. */
function recorded () {
  const sent: (readonly string[])[] = []
  const { evaluateDigest, evaluateSource, removeKey } = adaptIoredis(client)
  const note = (run: QuotaRedisClient['evaluateDigest']): typeof run => (script, key, parameters) => {
    sent.push(parameters)
    return run(script, key, parameters)
  }
  return { adapted: { evaluateDigest: note(evaluateDigest), evaluateSource: note(evaluateSource), removeKey }, sent }
}

const names = (kind: string, count: number) => Array.from({ length: count }, (_, number) => `${kind} ${number}`)

t.test('the results at a cap of several pages are those of the memory store, with and without a dead row', async (t) => {
  for (const silent of [0, 1]) {
    const { adapted, sent } = recorded()
    const clock = new VirtualClock()
    const maxTrackedCallers = 3_500
    const stores = [
      new RedisQuotaStore({ client: adapted, clock: clock.now, maxTrackedCallers, rememberRefusals: false, keyPrefix: `silent-${silent}:` }),
      new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers })
    ]
    const same = async (ask: (store: typeof stores[number]) => unknown, message: string) => {
      const [onServer, inMemory] = await Promise.all(stores.map(ask))
      t.same(onServer, inMemory, message)
    }
    const touch = (callers: readonly string[]) => same((store) => Promise.all(callers.map((caller) => store.acquire(caller, 5))), `${callers.length} callers`)
    // One caller was seen before the others, and then again.
    const [early, ...others] = names('caller', maxTrackedCallers)
    await touch([String(early), ...others])
    clock.advance(35_000)
    await touch([String(early)])
    clock.advance(900)
    await touch(others.slice(silent))
    clock.advance(34_100)
    await touch([String(early)])
    clock.advance(50_000)
    await touch(['newcomer'])
    clock.advance(35_500)
    await same((store) => store.peek('newcomer'), 'peek with a due sweep')
    t.equal(await stores[0]?.peek('newcomer') === null, silent === 1, 'the window of the overflow counter is open if no row is dead')
    await same((store) => store.inspect(), 'inspect')
    const before = sent.length
    for (const caller of ['newcomer', 'another', 'newcomer']) await touch([caller])
    t.ok(sent.length - before > 3, `${sent.length - before} scripts`)
    await same((store) => store.peek('newcomer'), 'peek')
    await same((store) => store.inspect(), 'inspect after the sweep')
    await same((store) => store.forget('caller 0'), 'forget')
    for (const caller of ['newcomer', 'third']) await touch([caller])
  }
})

t.test('a new caller at the cap needs a script for each page of rows at most, and only the first one after a sweep', async (t) => {
  const everybody = names('caller', 3_000)
  const { adapted, sent } = recorded()
  const clock = new VirtualClock()
  const store = new RedisQuotaStore({ client: adapted, clock: clock.now, maxTrackedCallers: everybody.length, rememberRefusals: false })
  const touch = (callers: readonly string[]) => Promise.all(callers.map((caller) => store.acquire(caller, 5)))
  const scriptsOfNewcomer = async () => {
    const before = sent.length
    t.match(await store.acquire('newcomer', 5), { overflow: true })
    return sent.length - before
  }
  await touch(everybody)
  clock.advance(60_000)
  t.equal(await scriptsOfNewcomer(), 1, 'no row can be dead yet')
  await touch(everybody)
  clock.advance(60_000)
  const pages = await scriptsOfNewcomer()
  t.ok(pages > 1 && pages <= 4, `${pages} scripts`)
  t.equal(await scriptsOfNewcomer(), 1)
})

t.test('decisions that arrive together share a script', async (t) => {
  const { adapted, sent } = recorded()
  const store = new RedisQuotaStore({ client: adapted, rememberRefusals: false })
  const answers = await Promise.all(names('caller', 70).map((caller) => store.acquire(caller, 5)))
  t.same(answers.map(({ count }) => count), Array(70).fill(1))
  t.same(sent.map(({ length }) => length - 2), [64, 6], 'the callers, their limit, and that the decision is the first')
  sent.length = 0
  const limits = [1, 2, 1, 2, 1, 2]
  const others = await Promise.all(limits.map((limit) => store.acquire('one caller', limit)))
  t.same(sent, [[...Array(6).fill('one caller'), ...limits.map(String)]])
  t.equal(others.filter(({ admitted }) => admitted).length, 2)
  const mixed = await Promise.all([5, 5, 1, 5].map((limit) => store.acquire('another', limit)))
  t.match(mixed, [{ count: 1 }, { count: 2 }, { admitted: false, count: 2 }, { admitted: true, count: 3 }])
})

t.test('decisions with the option clock are made in order, each at its own time', async (t) => {
  const { adapted, sent } = recorded()
  const clock = new VirtualClock()
  const store = new RedisQuotaStore({ client: adapted, clock: clock.now, rememberRefusals: false })
  const answers = []
  for (const gap of [0, 0, 0, 10, 0, 59_990]) {
    clock.advance(gap)
    answers.push(store.acquire('alice', 4))
  }
  t.same((await Promise.all(answers)).map(({ count, windowRemaining }) => [count, windowRemaining]),
    [[1, 60_000], [2, 60_000], [3, 60_000], [4, 59_990], [4, 59_990], [1, 60_000]])
  t.same(sent.map(({ length }) => length - 3), [3, 2, 1], 'the callers, their limit, the time, and that the decision is the first')
})

t.test('the decisions of one script fail together, and no others fail', async (t) => {
  const failing: QuotaRedisClient = {
    evaluateDigest () { throw new Error('closed') },
    evaluateSource: async () => (2 ** 27 + 60_000) * 4 + 1,
    removeKey: async () => 0
  }
  const store = new RedisQuotaStore({ client: failing })
  await store.acquire('first', 5)
  const settled = await Promise.allSettled(names('caller', 2).map((caller) => store.acquire(caller, 5)))
  t.same(settled.map(({ status }) => status), ['rejected', 'rejected'])
  await t.rejects(async () => store.acquire('later', 5), /closed/)
  const rejecting = new RedisQuotaStore({ client: { ...failing, evaluateDigest: async () => { throw new Error('WRONGTYPE') } } })
  await rejecting.acquire('first', 5)
  await t.rejects(async () => rejecting.acquire('later', 5), /WRONGTYPE/)
})

t.test('asks, counts and charges of the same turn share scripts', async (t) => {
  const store = new RedisQuotaStore({ client })
  await store.acquire('first', 1)
  const { eval: sources = 0, evalsha = 0 } = await commandsDuring(client, () =>
    Promise.all(names('caller', 16).flatMap((caller, index) => [store.acquire(caller, 10, 0), store.acquire(caller, Number.MAX_SAFE_INTEGER, 100 + index)])))
  t.equal(sources + evalsha, 1)
})

t.test('peek, inspect, forget and clearCounters follow the decisions that were requested before them', async (t) => {
  const store = new RedisQuotaStore({ client })
  // The decisions wait until the code that runs now has ended.
  const after = async <Result>(call: () => Promise<Result>, callers = ['alice', 'alice', 'alice']): Promise<Result> => {
    const decisions = callers.map((caller) => store.acquire(caller, 10))
    const result = await call()
    await Promise.all(decisions)
    return result
  }
  t.match(await after(() => store.peek('alice')), { count: 3 })
  await after(() => store.forget('alice'))
  t.equal(await store.peek('alice'), null)
  t.match(await after(() => store.inspect(), ['alice', 'bob', 'carol']), { trackedCallers: 3 })
  await after(() => store.clearCounters())
  t.equal(await store.peek('alice'), null)
})

t.test('counts are exact up to the largest limit', async (t) => {
  for (const count of [2 ** 23 - 2, 2 ** 23 - 1, 2 ** 32, 2 ** 53 - 3]) {
    const clock = new VirtualClock()
    const store = new RedisQuotaStore({ client, clock: clock.now, keyPrefix: `${count}:` })
    await store.acquire('alice', Number.MAX_SAFE_INTEGER)
    const row = await client.hgetBuffer(`${count}:{0}:default:counters`, 'alice')
    row?.writeDoubleLE(count)
    await client.hset(`${count}:{0}:default:counters`, 'alice', row ?? '')
    clock.advance(0.5)
    const windowRemaining = 59_999.5
    t.same(await store.acquire('alice', Number.MAX_SAFE_INTEGER), { admitted: true, count: count + 1, windowRemaining, overflow: false })
    t.same(await store.acquire('alice', count + 1), { admitted: false, count: count + 1, windowRemaining, overflow: false })
    t.same(await store.peek('alice'), { count: count + 1, windowRemaining, overflow: false })
  }
})

t.test('a key that has lost its expiry gets a new one', async (t) => {
  const store = new RedisQuotaStore({ client })
  await store.acquire('alice', 5)
  await client.persist('llm-quota:{0}:default:counters')
  t.match(await store.peek('alice'), { count: 1 })
  t.match(await store.acquire('alice', 5), { count: 2 })
  t.ok(await client.pttl('llm-quota:{0}:default:counters') > 0)
})
