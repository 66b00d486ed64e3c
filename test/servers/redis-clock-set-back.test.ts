// The server's clock is set back. Inactive callers once kept their places for as long as the step.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'
import { acquireOne, demand, estimate, place } from '../support/told-store.js'

const { client } = await startRedis(t)
const one = { limit: 1 }

/** An empty server, a clock that a test sets, and stores with this clock. */
async function start () {
  await client.flushall()
  const clock = { time: 1e12 }
  const create = () =>
    new RedisQuotaStore({ client, clock: () => clock.time, rememberRejections: false })
  return { clock, create, store: create() }
}

for (const step of [1, 1_000, 30_000, 59_999, 90_000, 3_600_000, 1e11]) {
  t.test(
    `a window becomes longer by no more than the step, and no wait negative, of ${step} ms`,
    async (t) => {
      const { clock, store } = await start()
      await acquireOne(store, 'alice', one)
      clock.time += 20_000
      await acquireOne(store, 'alice', one)
      clock.time -= step
      const left = Math.min(60_000, 40_000 + step)
      for (const [later, admitted, windowRemaining] of [
        [0, false, left],
        [left - 1, false, 1],
        [1, true, 60_000]
      ] as const) {
        clock.time += later
        t.match(await store.peek(demand('alice', one)), admitted ? null : { windowRemaining })
        t.match(await acquireOne(store, 'alice', one), { admitted, windowRemaining })
      }
    }
  )
}

t.test('what is counted of a window is the same after a step', async (t) => {
  const { clock, store } = await start()
  const { receipt } = await acquireOne(store, 'alice', estimate(3))
  clock.time -= 3_600_000
  t.match(await acquireOne(store, 'alice', estimate(2)), { admitted: true, count: 5 })
  await store.settle(receipt, { count: 1, held: 3 })
  t.match(await store.peek(demand('alice', estimate())), { count: 4 })
})

t.test('no place outlives the step by more than 30 s', async (t) => {
  const { clock, create, store } = await start()
  await acquireOne(store, 'alice', place(1))
  clock.time -= 3_600_000
  const other = create()
  t.match(await acquireOne(other, 'alice', place(1)), { admitted: false, count: 1 })
  clock.time += 29_999
  t.match(await acquireOne(other, 'alice', place(1)), { admitted: false, count: 1 })
  clock.time += 1
  t.match(await acquireOne(other, 'alice', place(1)), { admitted: true, count: 1 })
})

t.test('with a cap, an inactive caller is tracked until the clock has passed', async (t) => {
  const { clock } = await start()
  const store = new RedisQuotaStore({
    client,
    clock: () => clock.time,
    rememberRejections: false,
    maxTrackedCallers: 1
  })
  await acquireOne(store, 'alice', one)
  t.match(await acquireOne(store, 'bob', one), { overflow: true })
  clock.time -= 30_000
  t.match(await acquireOne(store, 'bob', one), { overflow: true })
  clock.time += 149_999
  t.match(await acquireOne(store, 'bob', one), { overflow: true })
  clock.time += 1
  t.match(await acquireOne(store, 'bob', one), { overflow: false })
})
