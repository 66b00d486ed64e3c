// The features of the Redis store that other stores do not have, on real servers.
import t from 'tap'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { VirtualClock } from '../../lib/testing.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'
import { matchExactly } from '../support/match-exactly.js'
import { commandsDuring, startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'

const { server, client } = await startRedis(t)
t.beforeEach(async () => {
  await client.flushall()
})

const key = (name: string) => String(callerKey(localAuthentication(name)))
const tokens = { counters: 'chat.tokens.day', window: 86_400_000 }

t.test(
  'four processes admit no more than any limit, and what each quota counted is what was admitted',
  async (t) => {
    const clients = Array.from({ length: 4 }, (_, index) =>
      server.client({ enableAutoPipelining: index % 2 === 0 })
    )
    const stores = clients.map((client) => new RedisQuotaStore({ client }))
    for (let round = 0; round < 50; round++) {
      const caller = key(`caller ${round}`)
      const demands = [
        demand(caller, { limit: 20 }),
        demand(caller, { ...tokens, limit: 90, least: 10, most: 10 }),
        demand(caller, place(12))
      ]
      const requests = await Promise.all(
        Array.from({ length: 40 }, (_, request) => stores[request % 4]?.acquire(demands) ?? [])
      )
      t.equal(
        requests.filter((acquisitions) => acquisitions.every((each) => each?.admitted)).length,
        9
      )
      matchExactly(t, await Promise.all(demands.map((each) => stores[0]?.peek(each))), [
        { count: 9 },
        { count: 90 },
        { count: 9 }
      ])
    }
    for (const client of clients) client.disconnect()
  }
)

t.test(
  'a request with three quotas takes one round trip and one command, and so does what it ' +
    'gives back',
  async (t) => {
    const store = new RedisQuotaStore({ client })
    const demands = [
      demand('alice'),
      demand('alice', { ...tokens, least: 3, most: 3 }),
      demand('alice', place())
    ]
    for (const first of [true, false]) {
      const sent = await commandsDuring(client, async () => {
        const acquisitions = await store.acquire(demands)
        const settled = acquisitions.slice(1).map(async (each) => {
          const { granted: count = 0, receipt } = each ?? {}
          await store.settle(receipt, { count, held: count })
        })
        await Promise.all(settled)
      })
      matchExactly(t, [sent.eval, sent.evalsha], first ? [1, 1] : [undefined, 2])
    }
  }
)

t.test('the store uses the clock of the server', async (t) => {
  const store = new RedisQuotaStore({ client, rememberRejections: false })
  t.equal((await acquireOne(store, 'alice')).windowRemaining, 60_000)
  let later = 60_000
  await until('time passes on the server', async () => {
    later = Number((await acquireOne(store, 'alice')).windowRemaining)
    return later < 60_000
  })
  t.ok(later > 50_000, `${later} ms are left`)
})

t.test("with the server's clock, peek and list say what is held", async (t) => {
  const store = new RedisQuotaStore({ client })
  await acquireOne(store, 'alice', estimate(3))
  t.match(await store.peek(demand('alice', estimate())), { count: 3, held: 3 })
  t.match(await store.list('chat.tokens.day'), { callers: [{ count: 3, held: 3 }] })
})

t.test('the keys begin with the prefix, contain digests only, and expire', async (t) => {
  const clock = new VirtualClock()
  const store = new RedisQuotaStore({
    client,
    keyPrefix: 'mine:',
    maxTrackedCallers: 2,
    clock: clock.now
  })
  const root = 'mine:{mine:}v9:'
  const [minute, day, place30] = [180_000, 86_520_000, 30_000]
  const expiries: Record<string, number> = {
    'windows:default': minute,
    'windows:chat.tokens.day': day,
    'places:streams.concurrent': place30
  }
  for (const name of ['alice', 'bob', 'carol']) {
    expiries[`places:streams.concurrent ${key(name)}`] = place30
  }
  // They are created, and created again after they were removed.
  for (let minute = 0; minute < 6; minute++) {
    for (const name of ['alice', 'bob', 'carol']) {
      await store.acquire([
        demand(key(name), { limit: 50 }),
        demand(key(name), tokens),
        demand(key(name), place(50))
      ])
    }
    const expected = Object.keys(expiries).map((end) => root + end)
    t.same((await client.keys('*')).sort(), expected.sort())
    for (const [end, expiry] of Object.entries(expiries)) {
      const left = await client.pttl(root + end)
      t.ok(left > expiry - 70_000 && left <= expiry, `${end} expires in ${left} ms`)
    }
    clock.advance(60_000)
  }
  for (const counters of ['default', 'chat.tokens.day']) {
    t.same(
      (await client.hkeys(`${root}windows:${counters}`)).sort(),
      ['"overflow"', ...['alice', 'bob'].map(key)].sort()
    )
  }
})

t.test('in a cluster, all keys are in the slot of the prefix, or of its braces', async (t) => {
  for (const [keyPrefix, tag] of [
    ['mine:', 'mine:'],
    ['mine:{a}:', 'a'],
    ['{a}', 'a']
  ] as const) {
    const store = new RedisQuotaStore({ client, keyPrefix })
    await store.acquire([demand('alice'), demand('alice', tokens), demand('alice', place())])
    const keys = await client.keys('*')
    t.ok(keys.every((name) => name.startsWith(keyPrefix)))
    t.same(new Set(keys.map((name) => /\{(.+?)\}/.exec(name)?.[1])), new Set([tag]))
    await client.flushall()
  }
})

t.test('no dead counter that opens again, and no dead overflow counter, is room', async (t) => {
  const clock = new VirtualClock()
  const store = new RedisQuotaStore({
    client,
    maxTrackedCallers: 2,
    rememberRejections: false,
    clock: clock.now
  })
  const ask = (...names: string[]) =>
    Promise.all(names.map((name) => acquireOne(store, key(name), { limit: 9 })))
  const tracked = async () => (await store.inspect('default')).trackedCallers

  await ask('alice')
  clock.advance(60_000)
  await ask('bob')
  clock.advance(60_000)
  t.match(
    await ask('carol', 'alice', 'dave'),
    [{ overflow: true }, { overflow: false }, { overflow: true }],
    'alice comes back in the same call'
  )
  t.equal(await tracked(), 2)

  clock.advance(60_000)
  await ask('alice', 'bob')
  clock.advance(60_000)
  t.match(await ask('erin'), [{ overflow: true }], 'the overflow counter is dead')
  t.equal(await tracked(), 2)
})

t.test("a month's callers fill the cap until a minute after it, and no key stays", async (t) => {
  const day = 86_400_000
  const now = Date.now()
  const settled = { count: 1, held: 0 }
  for (const [what, end, window, isOverflowLater] of [
    ['a month that ends in half a minute', now + 30_000, 31 * day, false],
    ['a month of which a function says when it begins', now + 30_000, 62 * day, true],
    ['a month that is over by the clock of the server', now - 90_000, 31 * day, true]
  ] as const) {
    const clock = new VirtualClock()
    const store = new RedisQuotaStore({ client, maxTrackedCallers: 1, clock: clock.now })
    const month = { window, start: end - 31 * day, end }
    const next = { window, start: end, end: end + 31 * day }
    const { receipt } = await acquireOne(store, 'alice', month)
    if (end > now) t.equal(await store.settle(receipt, settled, 'a text'), true)
    // The keys of calls are kept for a day.
    const found = (await client.keys('*')).filter((key) => !key.includes(':calls:'))
    const left = await Promise.all(found.map((key) => client.pttl(key)))
    const longest = isOverflowLater ? window + 120_000 : 150_000
    t.ok(left.every((time) => time > 0 && time <= longest), `${what}: ${left.join(', ')} ms`)
    clock.advance(60_000)
    t.match(await acquireOne(store, 'bob', next), { overflow: true }, what)
    clock.advance(30_000)
    t.match(await acquireOne(store, 'carol', next), { overflow: isOverflowLater }, what)
    await client.flushall()
  }
})

t.test('12,000 callers on a quota of a month have a counter each', async (t) => {
  const store = new RedisQuotaStore({ client })
  const month = { counters: 'chat.tokens.month', window: 31 * 86_400_000, limit: 9 }
  let overflowed = 0
  for (let first = 0; first < 12_000; first += 2_000) {
    const acquired = await Promise.all(
      Array.from({ length: 2_000 }, (_, index) => {
        const most = 1 + (index % 5)
        return acquireOne(store, `caller ${first + index}`, { ...month, least: most, most })
      })
    )
    overflowed += acquired.filter(({ overflow }) => overflow === true).length
  }
  t.equal(overflowed, 0)
  t.same(await store.inspect('chat.tokens.month'), { trackedCallers: 12_000 })
  for (const index of [0, 9_999, 10_000, 10_003, 11_999]) {
    t.match(await store.peek(demand(`caller ${index}`, month)), { count: 1 + (index % 5) })
  }
})

t.test(
  'clearCounters removes every quota that any process has used, places included',
  async (t) => {
    const store = new RedisQuotaStore({ client })
    for (const caller of ['a0000000', 'a0000001']) {
      await store.acquire([demand(caller), demand(caller, tokens), demand(caller, place())])
    }
    const places = await acquireOne(store, 'a0000000', place())
    await new RedisQuotaStore({ client }).clearCounters()
    t.same(await client.keys('*'), [])
    await store.clearCounters()
    t.match(await acquireOne(store, 'a0000000', place()), { count: 1 })
    await store.settle(places.receipt, { count: 1, held: 1 })
    t.match(
      await store.peek(demand('a0000000', place())),
      { count: 1 },
      'a place that was cleared is not given back'
    )
  }
)

t.test(
  'nothing is given back in a window that opened at the same time after the counters were lost',
  async (t) => {
    const clock = new VirtualClock()
    const create = () => new RedisQuotaStore({ client, clock: clock.now, maxTrackedCallers: 1 })
    const [store, other] = [create(), create()]
    const losses = [
      () => client.flushall(),
      () => other.clearCounters(),
      () => other.forget('default', key('alice'))
    ]
    for (const lose of losses) {
      for (const day of [{}, { start: 8e12, end: 9e12 }]) {
        const { receipt } = await acquireOne(store, key('alice'), { least: 3, most: 3, ...day })
        await lose()
        const two = await acquireOne(other, key('alice'), { least: 2, most: 2, ...day })
        t.match(two, { admitted: true, count: 2 })
        await store.settle(receipt, { count: 3, held: 0 })
        t.match(await other.peek(demand(key('alice'), day)), { count: 2 })
        await client.flushall()
      }
    }
  }
)

t.test('a settlement with a text is applied once, in whichever process', async (t) => {
  const stores = [new RedisQuotaStore({ client }), new RedisQuotaStore({ client })]
  for (const day of [{}, { start: Date.now() - 1_000, end: Date.now() + 60_000 }]) {
    const estimated = estimate(10, { limit: 20, window: 60_000, ...day })
    const { receipt } = await acquireOne(new RedisQuotaStore({ client }), 'alice', estimated)
    const less = { count: 4, held: 10 }
    const applied = await Promise.all(
      Array.from({ length: 10 }, (_, attempt) => stores[attempt % 2]?.settle(receipt, less, 'text'))
    )
    t.equal(applied.filter((isFirst) => isFirst === true).length, 1)
    t.equal(applied.filter((isFirst) => isFirst === false).length, 9)
    t.match(await stores[0]?.peek(demand('alice', estimated)), { count: 6, held: 0 })
    t.equal(await stores[0]?.settle(receipt, less, 'another text'), true)
    await client.flushall()
    t.equal(await stores[0]?.settle(receipt, less, 'too late'), false, 'the window is lost')
  }
})

t.test(
  'the error for an invalid option of a RedisQuotaStore contains its name and value',
  async (t) => {
    const invalid: [object, RegExp][] = [
      [
        { client: undefined },
        /option client must be a client of ioredis, .*, or a QuotaRedisClient; it got undefined/
      ],
      [
        { client: { host: 'redis.example', password: 'secret' } },
        /option client .* it got an object$/
      ],
      [{ client: 'redis://:secret@redis.example' }, /option client .* it got a string$/],
      [{ keyPrefix: '' }, /option keyPrefix must be a string that is not empty, .* it got ""/],
      [{ keyPrefix: 'a{}' }, /option keyPrefix .* it got "a{}"/],
      [{ keyPrefix: 'a}b{' }, /option keyPrefix .* it got "a}b{"/],
      [{ maxTrackedCallers: 0 }, /option maxTrackedCallers .* it got 0/],
      [{ shards: 2 }, /option shards does not exist; it got 2/],
      [
        { rememberRejections: 'yes' },
        /option rememberRejections must be true or false; it got "yes"/
      ],
      [{ clock: 5 }, /option clock must be a function; it got 5/],
      [{ prefix: 'my-service:' }, /option prefix does not exist; it got a string/]
    ]
    for (const [options, message] of invalid) {
      t.throws(() => Reflect.construct(RedisQuotaStore, [{ client, ...options }]), {
        code: 'FST_ERR_LLM_QUOTA_OPTION',
        message
      })
    }
    t.throws(() => Reflect.construct(RedisQuotaStore, []), {
      code: 'FST_ERR_LLM_QUOTA_OPTION',
      message: /option options must be a plain object; it got undefined/
    })
  }
)
