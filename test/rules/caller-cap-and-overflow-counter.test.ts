// docs/rules.md, "Caller cap and overflow counter".
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { alice, analyze, createService } from '../support/service.js'

function createStore (maxTrackedCallers?: number) {
  const clock = new VirtualClock()
  return { clock, store: new MemoryQuotaStore({ clock: clock.now, ...(maxTrackedCallers !== undefined && { maxTrackedCallers }) }) }
}

t.test('default requests per window: 10', async (t) => {
  const app = await createService()
  const answers = []
  for (let request = 0; request < 12; request++) answers.push((await analyze(app, alice)).statusCode)
  t.same(answers, [...Array(10).fill(200), 429, 429])
})

t.test('limit 0 disables all four operations; a negative limit is 1', async (t) => {
  const disabled = await createService({ perMinute: 0 })
  t.equal((await analyze(disabled, null)).statusCode, 200)
  const closed = await createService({ perMinute: -1 })
  t.same([(await analyze(closed, alice)).statusCode, (await analyze(closed, alice)).statusCode], [200, 429])
})

t.test('maximum tracked callers: 10,000', async (t) => {
  const { store } = createStore()
  const overflowing = Array.from({ length: 10_000 }, (_, caller) => store.acquire(`caller ${caller}`, 1)).filter(({ overflow }) => overflow)
  t.same(overflowing, [])
  t.equal(store.acquire('one more', 1).overflow, true)
  t.equal(store.inspect().trackedCallers, 10_000)
})

t.test("overflow rule 1: uses the same window and limit as a caller's own counter", async (t) => {
  const { clock, store } = createStore(1)
  store.acquire('tracked', 2)
  clock.advance(30_000)
  t.same(store.acquire('a', 2), { admitted: true, count: 1, windowRemaining: 60_000, overflow: true })
  clock.advance(59_999)
  t.same(store.acquire('a', 2), { admitted: true, count: 2, windowRemaining: 1, overflow: true })
  t.same(store.acquire('a', 2), { admitted: false, count: 2, windowRemaining: 1, overflow: true })
})

t.test('overflow rule 2: its count is shared until its window rotates', async (t) => {
  const { clock, store } = createStore(1)
  store.acquire('tracked', 1)
  t.equal(store.acquire('a', 1).admitted, true)
  t.equal(store.acquire('b', 1).admitted, false)
  clock.advance(60_000)
  t.equal(store.acquire('b', 1).admitted, true)
  t.equal(store.acquire('a', 1).admitted, false)
})

t.test('overflow rule 3: callers that already have a counter keep using it', async (t) => {
  const { store } = createStore(1)
  store.acquire('tracked', 3)
  store.acquire('a', 3)
  t.same(store.acquire('tracked', 3), { admitted: true, count: 2, windowRemaining: 60_000, overflow: false })
})
