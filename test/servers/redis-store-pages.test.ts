// Cases in which the Redis store needs more than one script or command: at the cap of a large shard, and for decisions that arrive
// together.
import type { Redis } from 'ioredis'
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { RedisQuotaStore, type QuotaRedisClient } from '../../lib/redis.js'
import { VirtualClock } from '../../lib/testing.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)
t.beforeEach(async () => { await client.flushall() })

/** A client like a host's own implementation of the interface, and the parameters of the scripts that it sent. */
function recorded (client: Redis) {
  const sent: (readonly string[])[] = []
  const adapted: QuotaRedisClient = {
    evaluateDigest (digest, key, parameters) {
      sent.push(parameters)
      return client.evalsha(digest, 1, key, ...parameters)
    },
    evaluateSource (source, key, parameters) {
      sent.push(parameters)
      return client.eval(source, 1, key, ...parameters)
    },
    removeKey: (key) => client.unlink(key)
  }
  return { adapted, sent }
}

const names = (kind: string, count: number) => Array.from({ length: count }, (_, number) => `${kind} ${number}`)

t.test('the results at a cap of several pages are those of the memory store, with and without a dead row', async (t) => {
  for (const silent of [0, 1]) {
    const { adapted, sent } = recorded(client)
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
  const { adapted, sent } = recorded(client)
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
  const { adapted, sent } = recorded(client)
  const store = new RedisQuotaStore({ client: adapted, rememberRefusals: false })
  const answers = await Promise.all(names('caller', 70).map((caller) => store.acquire(caller, 5)))
  t.same(answers.map(({ count }) => count), Array(70).fill(1))
  t.same(sent.map(({ length }) => length - 1), [64, 6], 'the callers and their limit')
  sent.length = 0
  const limits = [1, 2, 1, 2, 1, 2]
  const others = await Promise.all(limits.map((limit) => store.acquire('one caller', limit)))
  t.same(sent, [[...Array(6).fill('one caller'), ...limits.map(String)]])
  t.equal(others.filter(({ admitted }) => admitted).length, 2)
})

t.test('decisions with the option clock are made in order, each at its own time', async (t) => {
  const { adapted, sent } = recorded(client)
  const clock = new VirtualClock()
  const store = new RedisQuotaStore({ client: adapted, clock: clock.now, rememberRefusals: false })
  const answers = []
  for (const gap of [0, 0, 0, 10, 0, 59_990]) {
    clock.advance(gap)
    answers.push(store.acquire('alice', 4))
  }
  t.same((await Promise.all(answers)).map(({ count, windowRemaining }) => [count, windowRemaining]),
    [[1, 60_000], [2, 60_000], [3, 60_000], [4, 59_990], [4, 59_990], [1, 60_000]])
  t.same(sent.map(({ length }) => length - 2), [3, 2, 1], 'the callers, their limit and the time')
})

t.test('the decisions of one script fail together, and no others fail', async (t) => {
  const failing: QuotaRedisClient = {
    evaluateDigest () { throw new Error('closed') },
    evaluateSource: async () => (2 ** 27 + 60_000) * 8 + 1,
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

t.test('keys that are not digests are also distributed over the shards', async (t) => {
  const store = new RedisQuotaStore({ client, shards: 3 })
  const callers = names('caller', 30)
  for (const count of [1, 2]) for (const caller of callers) t.equal((await store.acquire(caller, 5)).count, count)
  t.equal((await client.keys('*')).length, 3)
  t.same(await store.inspect(), { trackedCallers: 30, sweeps: 0 })
})

t.test('the store accepts replies in every form that clients return', async (t) => {
  const packed = (2 ** 27 + 60_000) * 8 + 3
  for (const reply of [packed, String(packed), BigInt(packed), Buffer.from(String(packed)), '1 60000 3', [packed]]) {
    const store = new RedisQuotaStore({ client: { evaluateDigest: async () => reply, evaluateSource: async () => reply, removeKey: async () => 0 } })
    t.same(await store.acquire('alice', 5), { admitted: true, count: 1, windowRemaining: 60_000, overflow: true }, typeof reply)
  }
  const store = new RedisQuotaStore({ client: { evaluateDigest: async () => 0, evaluateSource: async () => 0, removeKey: async () => 0 } })
  await t.rejects(async () => store.acquire('alice', 5), /unexpected reply of the server: 0/)
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
