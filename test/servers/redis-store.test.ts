// The features of the Redis store that other stores do not have, on real servers.
import { Cluster, type Redis } from 'ioredis'
import t from 'tap'
import { callerKey, InsuredQuotaStore, localAuthentication, MemoryQuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { VirtualClock } from '../../lib/testing.js'
import { alice, analyze, createService } from '../support/service.js'
import { commandsDuring, startCluster, startRedis } from '../support/redis-server.js'

const { server, client } = await startRedis(t)
t.beforeEach(async () => { await client.flushall() })

const key = (name: string) => String(callerKey(localAuthentication(name)))

t.test('two instances admit exactly five of forty concurrent requests, in each of a hundred rounds', async (t) => {
  const clients = [server.client(), server.client({ enableAutoPipelining: true })] as const
  const create = (client: Redis) => createService({ perMinute: 5, store: new RedisQuotaStore({ client }) })
  const [one, two] = await Promise.all([create(clients[0]), create(clients[1])])
  const admitted = []
  for (let round = 0; round < 100; round++) {
    const claims = { ...alice, sub: `caller ${round}` }
    const responses = await Promise.all(Array.from({ length: 40 }, (_, request) => analyze(request % 2 === 0 ? one : two, claims)))
    admitted.push(responses.filter(({ statusCode }) => statusCode === 200).length)
    t.ok(responses.every(({ statusCode }) => statusCode === 200 || statusCode === 429))
  }
  t.same(admitted, Array(100).fill(5))
  for (const client of clients) client.disconnect()
})

t.test('a decision takes one round trip and one command of the client', async (t) => {
  const store = new RedisQuotaStore({ client })
  await store.acquire(key('alice'), 5)
  const { evalsha, eval: evaluated } = await commandsDuring(client, async () => { await store.acquire(key('alice'), 5) })
  t.equal(evalsha, 1)
  t.equal(evaluated, undefined)
})

t.test('the store uses the clock of the server', async (t) => {
  const store = new RedisQuotaStore({ client, rememberRefusals: false })
  const { windowRemaining } = await store.acquire(key('alice'), 1)
  t.equal(windowRemaining, 60_000)
  let later = windowRemaining
  while (later === windowRemaining) later = (await store.acquire(key('alice'), 1)).windowRemaining
  t.ok(later < 60_000 && later > 50_000)
})

t.test('keys that are not digests have their own counters, also in shards', async (t) => {
  for (const shards of [1, 3]) {
    const store = new RedisQuotaStore({ client, shards, rememberRefusals: false, keyPrefix: `${shards}:` })
    const digest = key('alice')
    const keys = ['', 'alice', 'bob', digest, `x${digest}`, `${digest}x`, digest.toUpperCase(), ...Array.from({ length: 30 }, (_, number) => `caller ${number}`)]
    for (const admitted of [true, false]) {
      for (const callerKey of keys) t.equal((await store.acquire(callerKey, 1)).admitted, admitted, callerKey)
    }
    t.equal((await client.keys(`${shards}:*`)).length, shards)
    t.same(await store.inspect(), { trackedCallers: keys.length, sweeps: 0 })
  }
})

t.test('keys begin with the prefix, contain digests only, and expire within 180 s', async (t) => {
  const store = new RedisQuotaStore({ client, keyPrefix: 'mine:', maxTrackedCallers: 2 })
  for (const name of ['alice', 'bob', 'carol']) await store.acquire(key(name), 5)
  const keys = await client.keys('*')
  t.same(keys, ['mine:{0}:default:counters'])
  for (const name of keys) {
    const milliseconds = await client.pttl(name)
    t.ok(milliseconds > 170_000 && milliseconds <= 180_000, name)
  }
  const fields = (await client.hkeysBuffer('mine:{0}:default:counters')).filter((field) => !field.includes(255)).map(String)
  t.same(fields.sort(), [key('alice'), key('bob')].sort())
})

t.test('keys still expire after counters have been removed and created again', async (t) => {
  const clock = new VirtualClock()
  const store = new RedisQuotaStore({ client, clock: clock.now })
  for (let minute = 0; minute < 5; minute++) {
    await store.acquire(key(`caller ${minute}`), 5)
    clock.advance(60_000)
  }
  for (const name of await client.keys('*')) t.ok(await client.pttl(name) > 0, name)
})

t.test('a sweep keeps the callers that have sent another request in time', async (t) => {
  const clock = new VirtualClock()
  const store = new RedisQuotaStore({ client, clock: clock.now, rememberRefusals: false })
  await Promise.all(Array.from({ length: 900 }, (_, caller) => store.acquire(key(`caller ${caller}`), 5)))
  clock.advance(29_999)
  await Promise.all(Array.from({ length: 700 }, (_, caller) => store.acquire(key(`caller ${caller}`), 5)))
  clock.advance(100_000)
  await store.acquire(key('one more'), 5)
  t.same(await store.inspect(), { trackedCallers: 701, sweeps: 1 })
  t.equal((await store.acquire(key('caller 0'), 5)).count, 1)
  t.same(await store.inspect(), { trackedCallers: 701, sweeps: 1 })
})

t.test('dead rows are removed page by page at the cap', async (t) => {
  const clock = new VirtualClock()
  const store = new RedisQuotaStore({ client, clock: clock.now, maxTrackedCallers: 3_000 })
  await Promise.all(Array.from({ length: 3_000 }, (_, caller) => store.acquire(key(`caller ${caller}`), 5)))
  clock.advance(150_000)
  const rows = () => client.hlen('llm-quota:{0}:default:counters')
  t.equal((await store.acquire(key('another 0'), 5)).overflow, false)
  t.ok(await rows() > 1_000 && await rows() < 2_600, 'the first new caller removes a page of rows')
  for (let caller = 1; caller < 25; caller++) t.equal((await store.acquire(key(`another ${caller}`), 5)).overflow, false)
  t.same(await store.inspect(), { trackedCallers: 25, sweeps: 1 }, 'the next ones remove the others')
})

t.test('the keys of a quota contain its name, and expire after its window', async (t) => {
  const store = new RedisQuotaStore({ client, shards: 4 })
  const day = 86_400_000
  await store.quota('daily', day).acquire('alice', 5)
  await store.quota('daily', day).enter('alice', 5)
  const shard = store.shardOf('alice')
  const keys = (await client.keys('*')).sort()
  t.same(keys, [`llm-quota:{${shard}}:daily:counters`, `llm-quota:{${shard}}:daily:places`])
  const [counters, places] = await Promise.all(keys.map((key) => client.pttl(key)))
  t.ok(Number(counters) > day && Number(counters) <= day + 120_000)
  t.ok(Number(places) > 20_000 && Number(places) <= 30_000)
  t.same({ keyPrefix: store.keyPrefix, shards: store.shards }, { keyPrefix: 'llm-quota:', shards: 4 })
  await store.clearCounters()
  t.same(await client.keys('*'), keys.slice(1))
})

t.test('the error for an invalid option of a RedisQuotaStore contains its name and value', async (t) => {
  const invalid: [object, RegExp][] = [
    [{ client: undefined }, /option client must be a client of ioredis, iovalkey, redis or @valkey\/valkey-glide, or a QuotaRedisClient; it got undefined/],
    [{ client: {} }, /option client .* it got an object$/],
    [{ client: { host: 'redis.example', password: 'secret' } }, /option client .* it got an object$/],
    [{ client: 'redis://:secret@redis.example' }, /option client .* it got a URL$/],
    [{ client: { evalsha: async () => null, eval: async () => null } }, /option client must be a client of ioredis/],
    [{ keyPrefix: 5 }, /option keyPrefix must be a string without braces; it got 5/],
    [{ keyPrefix: 'a{b}' }, /option keyPrefix .* it got "a{b}"/],
    [{ maxTrackedCallers: 0 }, /option maxTrackedCallers .* it got 0/],
    [{ shards: 0 }, /option shards must be an integer of at least 1; it got 0/],
    [{ shards: 1.5 }, /option shards .* it got 1.5/],
    [{ shards: 3, maxTrackedCallers: 2 }, /option shards .* it got 3/],
    [{ shards: 101 }, /option shards must be at most 16, or maxTrackedCallers \/ 100, and at most maxTrackedCallers; it got 101/],
    [{ shards: 17, maxTrackedCallers: 1_600 }, /option shards .* it got 17/],
    [{ rememberRefusals: 'yes' }, /option rememberRefusals must be true or false; it got "yes"/],
    [{ clock: 5 }, /option clock must be a function; it got 5/],
    [{ prefix: 'my-service:' }, /option prefix does not exist; it got a string/]
  ]
  for (const [options, message] of invalid) {
    t.throws(() => Reflect.construct(RedisQuotaStore, [{ client, ...options }]), { code: 'FST_ERR_LLM_QUOTA_OPTION', message })
  }
  t.throws(() => Reflect.construct(RedisQuotaStore, []), { code: 'FST_ERR_LLM_QUOTA_OPTION', message: /option options must be an object; it got undefined/ })
})

t.test('a decision that may have been counted is not sent again', async (t) => {
  await client.set('llm-quota:{0}:default:counters', 'another program\'s')
  const commands = await commandsDuring(client, async () => {
    await t.rejects(async () => new RedisQuotaStore({ client }).acquire(key('alice'), 1), /WRONGTYPE/)
  })
  t.match([commands.evalsha, commands.eval], [undefined, 1])
})

// clearCounters of an insured store once cleared the primary one turn late.
t.test('a request that follows clearCounters of an insured store keeps its count', async (t) => {
  for (const primary of [new MemoryQuotaStore(), new RedisQuotaStore({ client })]) {
    const store = new InsuredQuotaStore({ primary, timeout: 5_000 })
    await store.acquire('a', 1)
    const cleared = store.clearCounters()
    t.match(await store.acquire('a', 1), { admitted: true, count: 1 })
    await cleared
    t.match(await store.acquire('a', 1), { admitted: false, count: 1 })
    t.match(await store.acquire('a', 2), { admitted: true, count: 2 })
  }
})

t.test('shards distribute callers over a cluster, and each shard has its share of the cap', async (t) => {
  const servers = await startCluster()
  const cluster = new Cluster(servers.map(({ port }) => ({ host: '127.0.0.1', port })))
  t.teardown(async () => {
    cluster.disconnect()
    await Promise.all(servers.map((node) => node.stop()))
  })
  const store = new RedisQuotaStore({ client: cluster, shards: 8, maxTrackedCallers: 42 })
  for (let round = 0; round < 2; round++) {
    for (let caller = 0; caller < 200; caller++) await store.acquire(key(`caller ${caller}`), 1)
  }
  t.same(await store.inspect(), { trackedCallers: 42, sweeps: 0 })
  const masters = cluster.nodes('master')
  const perMaster = await Promise.all(masters.map(async (node) => (await node.keys('llm-quota:*')).length))
  t.equal(perMaster.reduce((sum, keys) => sum + keys, 0), 8)
  t.ok(perMaster.every((keys) => keys > 0), `every master has keys: ${perMaster}`)
  const sizes = await Promise.all(Array.from({ length: 8 }, (_, shard) => cluster.hlen(`llm-quota:{${shard}}:default:counters`)))
  t.same(sizes.map((fields) => fields - 1).sort(), [5, 5, 5, 5, 5, 5, 6, 6])
  await store.clearCounters()
  t.same(await store.inspect(), { trackedCallers: 0, sweeps: 0 })
})
