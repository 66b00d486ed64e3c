// If the server lost one of the store's keys, all callers shared the overflow counter for two
// minutes, or twice as many callers as the cap were tracked and a key never expired.
import type { Redis } from 'ioredis'
import tap from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { VirtualClock } from '../../lib/testing.js'
import { startRedis } from '../support/redis-server.js'
import { acquireOne, demand, place } from '../support/told-store.js'

const maxTrackedCallers = 6
const names = (kind: string, count: number) =>
  Array.from({ length: count }, (_, number) => `${kind} ${number}`)

const { client } = await startRedis(tap)

/** All that a server could lose: each key. */
async function losses (client: Redis): Promise<(() => Promise<unknown>)[]> {
  const keys = await client.keys('*')
  return keys.sort().map((key) => () => client.unlink(key))
}

async function filled () {
  await client.flushall()
  const clock = new VirtualClock()
  clock.advance(1_000_000)
  const store = new RedisQuotaStore({
    client,
    clock: clock.now,
    maxTrackedCallers,
    rememberRejections: false
  })
  for (const name of [...names('early', maxTrackedCallers), 'one too many']) {
    await store.acquire([demand(name, { limit: 2 }), demand(name, place())])
  }
  return { clock, store }
}

await filled()
const count = (await losses(client)).length
tap.equal(count, 3 + maxTrackedCallers + 1, 'the keys that can be lost')

for (let index = 0; index < count; index++) {
  tap.test(
    `after loss ${index + 1} of ${count}, the cap holds, and one window later, every ` +
      'caller has its own counter and limit',
    async (t) => {
      const { clock, store } = await filled()
      await (await losses(client))[index]?.()
      clock.advance(60_000)
      const acquisitions = []
      for (const name of names('early', maxTrackedCallers)) {
        for (let request = 0; request < 3; request++) {
          acquisitions.push(await acquireOne(store, name, { limit: 2 }))
        }
      }
      t.same(
        acquisitions.filter(({ overflow }) => overflow),
        [],
        'each caller has a counter of its own'
      )
      t.equal(
        acquisitions.filter(({ admitted }) => admitted).length,
        2 * maxTrackedCallers,
        'every limit holds'
      )
      t.equal(await tracked(store, names('late', maxTrackedCallers)), 0, 'the cap holds')
      const other = await filled()
      await (await losses(client))[index]?.()
      const fresh = names('fresh', 2 * maxTrackedCallers)
      await tracked(other.store, fresh)
      t.ok(
        (await tracked(other.store, [...names('early', maxTrackedCallers), ...fresh])) <=
          maxTrackedCallers,
        'the cap holds for new callers'
      )
      other.clock.advance(180_000)
      const late = [...names('late', maxTrackedCallers), 'one more']
      t.equal(
        await tracked(other.store, late),
        maxTrackedCallers,
        'inactive callers do not keep their places'
      )
      for (const key of await client.keys('*')) {
        const left = await client.pttl(key)
        t.ok(left > 0 && left <= 180_000, `${key} expires`)
      }
    }
  )
}

async function tracked (store: RedisQuotaStore, callers: readonly string[]): Promise<number> {
  let own = 0
  for (const caller of callers) {
    if (!(await acquireOne(store, caller, { limit: 2 })).overflow) own += 1
  }
  return own
}

tap.test("with the server's clock, decisions go on after a loss, and keys expire", async (t) => {
  await client.flushall()
  const store = new RedisQuotaStore({ client, rememberRejections: false })
  await acquireOne(store, 'alice', { limit: 2 })
  for (const lose of await losses(client)) {
    await lose()
    t.match(await acquireOne(store, 'alice', { limit: 1_000 }), { admitted: true, overflow: false })
    t.match(await acquireOne(store, 'bob', { limit: 1_000 }), { admitted: true, overflow: false })
    const keys = await client.keys('*')
    t.ok(keys.length > 1, `${keys.length} keys`)
    for (const key of keys) t.ok((await client.pttl(key)) > 0, `${key} expires`)
  }
})
