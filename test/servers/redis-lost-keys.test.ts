// Whichever of its keys the server loses, every limit holds again within one window, and every key
// expires.
import type { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { VirtualClock } from '../../lib/testing.js'
import { acquireOne, demand, place } from '../support/demands.js'
import { startRedis } from '../support/redis-server.js'

const callers = Array.from({ length: 4 }, (_, number) => `caller-${number}`)
const limit = 2
const { client } = await startRedis(t)

/** All that a server could lose: each key. */
async function losses (client: Redis): Promise<(() => Promise<unknown>)[]> {
  const keys = await client.keys('*')
  return keys.sort().map((key) => () => client.unlink(key))
}

async function filled (maxTrackedCallers = Infinity) {
  await client.flushall()
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  const store = new RedisQuotaStore({
    client,
    clock: clock.now,
    maxTrackedCallers,
    rememberRejections: false
  })
  for (const name of callers) await store.acquire([demand(name, { limit }), demand(name, place())])
  return { clock, store }
}

async function assertExpiring (t: Test): Promise<void> {
  for (const key of await client.keys('*')) {
    const left = await client.pttl(key)
    t.ok(left > 0 && left <= 180_000, `${key} expires`)
  }
}

await filled()
const count = (await losses(client)).length
t.equal(count, 2 + callers.length, 'the keys that can be lost')

for (let index = 0; index < count; index++) {
  t.test(`after loss ${index + 1} of ${count}, every limit holds one window later`, async (t) => {
    const { clock, store } = await filled()
    await (await losses(client))[index]?.()
    await acquireOne(store, 'caller-0', { limit })
    await acquireOne(store, 'caller-0', place())
    await assertExpiring(t)
    clock.advance(60_000)
    const admitted: string[] = []
    for (const name of callers) {
      for (let request = 0; request < 3; request++) {
        if ((await acquireOne(store, name, { limit })).admitted) admitted.push(name)
      }
    }
    t.same(admitted, callers.flatMap((name) => [name, name]))
    t.same(await store.inspect('default'), { trackedCallers: callers.length })
    await assertExpiring(t)
  })
}

t.test('with a cap, it holds again after each loss when the windows are over', async (t) => {
  for (let index = 0; index < count; index++) {
    const { clock, store } = await filled(2)
    await (await losses(client))[index]?.()
    clock.advance(180_000)
    const overflow: (boolean | undefined)[] = []
    for (const name of callers) {
      overflow.push((await acquireOne(store, name, { limit })).overflow)
    }
    const own = overflow.filter((each) => each === false).length
    t.ok(own <= 2, `${own} have a counter of their own`)
  }
})

t.test("with the server's clock, decisions go on after a loss, and keys expire", async (t) => {
  await client.flushall()
  const store = new RedisQuotaStore({ client, rememberRejections: false })
  await acquireOne(store, 'alice', { limit: 2 })
  for (const lose of await losses(client)) {
    await lose()
    t.match(await acquireOne(store, 'alice', { limit: 1_000 }), { admitted: true })
    t.match(await acquireOne(store, 'bob', { limit: 1_000 }), { admitted: true })
    await assertExpiring(t)
  }
})
