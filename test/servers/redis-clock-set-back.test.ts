// The server's clock is set back. Inactive callers once kept their places for as long as the step.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'
import { acquireOne, demand, place } from '../support/told-store.js'

const { client } = await startRedis(t)
const one = { limit: 1 }

/** An empty server, a clock that a test sets, and stores with this clock. */
async function start (maxTrackedCallers = 10_000) {
  await client.flushall()
  const clock = { time: 1e12 }
  const create = () =>
    new RedisQuotaStore({
      client,
      clock: () => clock.time,
      maxTrackedCallers,
      rememberRejections: false
    })
  return { clock, create, store: create() }
}

for (const step of [1, 1_000, 30_000, 59_999, 90_000, 3_600_000, 1e11]) {
  t.test(
    'a window does not become longer, and no wait negative, if the clock is set back by ' +
      `${step} ms after a decision`,
    async (t) => {
      for (const latest of ['alice', 'bob']) {
        const { clock, store } = await start()
        await acquireOne(store, 'alice', one)
        clock.time += 20_000
        await acquireOne(store, latest, one)
        clock.time -= step
        for (const [later, expected] of [
          [0, 40_000],
          [39_999, 1],
          [1, 60_000]
        ] as const) {
          clock.time += later
          t.match(await acquireOne(store, 'alice', one), {
            admitted: expected === 60_000,
            windowRemaining: expected
          })
        }
      }
    }
  )
  t.test(
    'a window becomes longer by at most the time since the last decision if the clock goes ' +
      `back by ${step} ms`,
    async (t) => {
      for (const [lag, idle] of [
        [50, 0],
        [50, 50],
        [50, 99],
        [50, 100],
        [50, 3_000],
        [50, 30_000],
        [150, 0]
      ] as const) {
        const { clock, store } = await start()
        for (const [caller, later] of [
          ['alice', 20_000],
          ['bob', lag],
          ['bob', idle - step]
        ] as const) {
          await acquireOne(store, caller, one)
          clock.time += later
        }
        const longer =
          Number((await acquireOne(store, 'alice', one)).windowRemaining) -
          (60_000 - 20_000 - lag - idle)
        t.ok(longer >= 0 && longer <= idle, `${lag} and ${idle} ms: ${longer} ms longer`)
      }
    }
  )
  t.test(
    `an inactive caller keeps its place for at most 180 s if the clock is set back by ${step} ms`,
    async (t) => {
      const { clock, store } = await start(3)
      for (const name of ['one', 'two', 'three']) await acquireOne(store, name, one)
      t.match(await acquireOne(store, 'newcomer', one), { overflow: true })
      clock.time -= step
      for (let second = 0; second < 180; second += 10) {
        clock.time += 10_000
        await acquireOne(store, 'one', one)
      }
      t.match(await acquireOne(store, 'newcomer', one), { overflow: false })
      t.match(await store.inspect('default'), { trackedCallers: 2 })
    }
  )
}

t.test('a window does not become longer if the server then loses its clock', async (t) => {
  const { clock, store } = await start()
  await acquireOne(store, 'alice', one)
  clock.time -= 3_600_000
  await acquireOne(store, 'alice', one)
  await client.unlink('llm-quota:{0}')
  t.match(await acquireOne(store, 'alice', one), { admitted: true, windowRemaining: 60_000 })
})

t.test('no window id is used twice while the clock of the server is set back', async (t) => {
  const { store } = await start()
  await acquireOne(store, 'alice')
  // The third number of the record is the latest id, in microseconds: that of a clock which was an
  // hour ahead.
  const record = await client.hgetBuffer('llm-quota:{0}', 'layout:6')
  if (record === null) throw new Error('the shard has no record')
  record.writeDoubleLE(record.readDoubleLE(16) + 3_600_000_000, 16)
  await client.hset('llm-quota:{0}', 'layout:6', record)
  await store.forget('alice', 'default')
  const earlier = await acquireOne(store, 'alice', { most: 3, limit: 10 })
  await store.forget('alice', 'default')
  await acquireOne(store, 'alice', { most: 2, limit: 10 })
  await store.settle(earlier, 0)
  t.match(await store.peek(demand('alice')), { count: 2 })
})

t.test(
  'sweeps continue after the clock has been set back, and no place outlives the step by ' +
    'more than 30 s',
  async (t) => {
    const { clock, create, store } = await start()
    await acquireOne(store, 'alice', one)
    await acquireOne(store, 'alice', place(1))
    clock.time -= 3_600_000
    const other = create()
    t.match(await acquireOne(other, 'alice', place(1)), { admitted: false, count: 1 })
    for (let minute = 0; minute < 3; minute++) {
      await acquireOne(store, 'bob', one)
      clock.time += 60_000
      if (minute === 0) {
        t.match(await acquireOne(other, 'alice', place(1)), { admitted: true, count: 1 })
      }
    }
    t.equal((await store.inspect('default')).sweeps, 2)
  }
)
