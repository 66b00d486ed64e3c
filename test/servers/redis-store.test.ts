// The features of the Redis store that other stores do not have, on real servers.
import t from 'tap'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { VirtualClock } from '../../lib/testing.js'
import { matchExactly } from '../support/match-exactly.js'
import { commandsDuring, startRedis } from '../support/redis-server.js'
import { acquireOne, demand, estimate, place } from '../support/told-store.js'
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
          if (each !== null) await store.settle(each, 0)
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

t.test(
  'the keys of a shard begin with the prefix, contain digests only, and expire',
  async (t) => {
    const clock = new VirtualClock()
    const store = new RedisQuotaStore({
      client,
      keyPrefix: 'mine:',
      maxTrackedCallers: 2,
      clock: clock.now
    })
    const expiries: Record<string, number> = {
      'mine:{0}': 86_520_000,
      'mine:{0}:windows:default': 180_000,
      'mine:{0}:windows:chat.tokens.day': 86_520_000,
      'mine:{0}:places:streams.concurrent': 30_000
    }
    for (const name of ['alice', 'bob', 'carol']) {
      expiries[`mine:{0}:places:streams.concurrent ${key(name)}`] = 30_000
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
      t.same((await client.keys('*')).sort(), Object.keys(expiries).sort())
      for (const [name, expiry] of Object.entries(expiries)) {
        const left = await client.pttl(name)
        t.ok(left > expiry - 70_000 && left <= expiry, `${name} expires in ${left} ms`)
      }
      clock.advance(60_000)
    }
    t.same(
      (await client.hkeys('mine:{0}')).sort(),
      [
        'layout:6',
        'mine:{0}:windows:default',
        'mine:{0}:windows:default overflow',
        'mine:{0}:windows:chat.tokens.day',
        'mine:{0}:windows:chat.tokens.day overflow',
        'mine:{0}:places:streams.concurrent'
      ].sort()
    )
    for (const counters of ['default', 'chat.tokens.day']) {
      t.same(
        (await client.hkeys(`mine:{0}:windows:${counters}`)).sort(),
        ['alice', 'bob'].map(key).sort()
      )
    }
  }
)

t.test(
  'clearCounters removes every quota that any process has used, places included',
  async (t) => {
    const store = new RedisQuotaStore({ client, shards: 2 })
    for (const caller of ['a0000000', 'a0000001']) {
      await store.acquire([demand(caller), demand(caller, tokens), demand(caller, place())])
    }
    const places = await acquireOne(store, 'a0000000', place())
    await new RedisQuotaStore({ client, shards: 2 }).clearCounters()
    t.same(await client.keys('*'), [])
    await store.clearCounters()
    t.match(await acquireOne(store, 'a0000000', place()), { count: 1 })
    await store.settle(places, 0)
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
      () => other.forget('alice', 'default')
    ]
    for (const [lose, day] of losses.flatMap(
      (each) =>
        [
          [each, {}],
          [each, { start: 8e12, end: 9e12 }]
        ] as const
    )) {
      const acquisition = await acquireOne(store, 'alice', { least: 3, most: 3, ...day })
      await lose()
      const two = await acquireOne(other, 'alice', { least: 2, most: 2, ...day })
      t.match(two, { admitted: true, count: 2 })
      await store.settle(acquisition, 0)
      t.match(await other.peek(demand('alice', day)), { count: 2 })
      await client.flushall()
    }
  }
)

t.test("a month's count is not lost because of a minute's quota", async (t) => {
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  const store = new RedisQuotaStore({ client, clock: clock.now })
  const month = { counters: 'chat.tokens.month', window: 31 * 86_400_000 }
  await acquireOne(store, 'alice', month)
  for (let minute = 0; minute < 5; minute++) {
    clock.advance(60_000)
    await acquireOne(store, 'bob')
    await acquireOne(store, 'bob', place(50))
  }
  for (const name of ['llm-quota:{0}', 'llm-quota:{0}:windows:chat.tokens.month']) {
    const left = await client.pttl(name)
    t.ok(left > month.window, `${name} expires in ${left} ms`)
  }
  t.match(await acquireOne(store, 'alice', month), { count: 2 })
})

t.test("of a request's quotas, the shard is kept for the longest window, whichever is the last",
  async (t) => {
    const month = { counters: 'chat.tokens.month', window: 31 * 86_400_000 }
    const demands = [demand('alice', month), demand('alice'), demand('alice', place())]
    for (const ordered of [demands, [...demands].reverse()]) {
      await client.flushall()
      const store = new RedisQuotaStore({ client })
      await store.acquire(ordered)
      for (const name of ['llm-quota:{0}', 'llm-quota:{0}:windows:chat.tokens.month']) {
        const left = await client.pttl(name)
        t.ok(left > month.window, `${name} expires in ${left} ms`)
      }
    }
  }
)

const layouts = [
  () => client.sadd('llm-quota:{0}', 'llm-quota:{0}:default'),
  () => client.hset('llm-quota:{0}', 'layout:7', 'of a later version'),
  () => client.set('llm-quota:{0}', "another program's")
]

t.test('another layout, older or newer, is refused by name and not changed', async (t) => {
  const store = new RedisQuotaStore({ client })
  const calls: (() => unknown)[] = [
    () => acquireOne(store, 'alice'),
    () => acquireOne(store, 'alice', place()),
    () => store.peek(demand('alice')),
    () => store.list('default'),
    () => store.inspect('default'),
    () => store.forget('alice', 'default')
  ]
  for (const write of layouts) {
    await client.flushall()
    const acquisition = await acquireOne(store, 'alice')
    await client.flushall()
    await write()
    const before = await client.dump('llm-quota:{0}')
    const settled = store.settle(acquisition, 0)
    for (const call of calls) {
      await t.rejects(
        async () => call(),
        /VERSION llm-quota:\{0\} has the layout of another version/
      )
    }
    t.same(await client.dump('llm-quota:{0}'), before)
    t.same(await client.keys('*'), ['llm-quota:{0}'])
    await client.flushall()
    await acquireOne(store, 'alice')
    await settled
  }
})

t.test('clearCounters removes a shard of another layout, whatever it is', async (t) => {
  const store = new RedisQuotaStore({ client })
  for (const write of layouts) {
    await client.flushall()
    await write()
    await store.clearCounters()
    t.same(await client.keys('*'), [])
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
      [{ client: 'redis://:secret@redis.example' }, /option client .* it got a URL$/],
      [{ keyPrefix: 'a{b}' }, /option keyPrefix .* it got "a{b}"/],
      [{ maxTrackedCallers: 0 }, /option maxTrackedCallers .* it got 0/],
      [{ shards: 0 }, /option shards must be an integer of at least 1; it got 0/],
      [{ shards: 3, maxTrackedCallers: 2 }, /option shards .* it got 3/],
      [
        { shards: 101 },
        /option shards must be at most 16, or maxTrackedCallers \/ 100, and .*; it got 101/
      ],
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
