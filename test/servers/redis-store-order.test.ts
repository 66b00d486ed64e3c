import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { VirtualClock } from '../../lib/testing.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)

t.beforeEach(async () => { await client.flushall() })

// The decisions wait until the code that runs now has ended.
function requestThree (store: RedisQuotaStore, callers = ['alice', 'alice', 'alice']) {
  return Promise.all(callers.map((caller) => store.acquire(caller, 10)))
}

t.test('peek follows the decisions that were requested before it', async (t) => {
  const store = new RedisQuotaStore({ client })
  const [, found] = await Promise.all([requestThree(store), store.peek('alice')])
  t.match(found, { count: 3 })
})

t.test('inspect follows the decisions that were requested before it', async (t) => {
  const store = new RedisQuotaStore({ client })
  const [, state] = await Promise.all([requestThree(store, ['alice', 'bob', 'carol']), store.inspect()])
  t.match(state, { trackedCallers: 3 })
})

t.test('forget and clearCounters remove the counts of decisions that were requested before them', async (t) => {
  const store = new RedisQuotaStore({ client })
  await Promise.all([requestThree(store), store.forget('alice')])
  t.equal(await store.peek('alice'), null)
  await Promise.all([requestThree(store), store.clearCounters()])
  t.equal(await store.peek('alice'), null)
})

t.test('a store with its own clock counts decisions with different limits in the order of the requests', async (t) => {
  const store = new RedisQuotaStore({ client, clock: new VirtualClock().now, rememberRefusals: false })
  const answers = await Promise.all([5, 5, 1, 5].map((limit) => store.acquire('alice', limit)))
  t.match(answers, [{ count: 1 }, { count: 2 }, { admitted: false, count: 2 }, { admitted: true, count: 3 }])
})

t.test('a rejection that arrives after forget or clearCounters has finished is not remembered', async (t) => {
  for (const relieve of ['forget', 'clearCounters'] as const) {
    await client.flushall()
    const held: (() => void)[] = []
    let isHolding = false
    const store = new RedisQuotaStore({
      client: {
        async evaluateDigest (digest, key, parameters) {
          const isHeld = isHolding
          const reply = await client.evalsha(digest, 1, key, ...parameters)
          if (isHeld) await new Promise<void>((resolve) => held.push(resolve))
          return reply
        },
        evaluateSource: (source, key, parameters) => client.eval(source, 1, key, ...parameters),
        removeKey: (key) => client.unlink(key)
      }
    })
    await store.acquire('alice', 1)
    isHolding = true
    const rejection = store.acquire('alice', 1)
    const relieved = store[relieve]('alice')
    isHolding = false
    await relieved
    t.equal(held.length, 1)
    held[0]?.()
    t.match(await rejection, { admitted: false })
    t.match(await store.acquire('alice', 1), { admitted: true, count: 1 }, relieve)
  }
})
