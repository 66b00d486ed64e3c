// docs/rules.md, "Caller cap and overflow counter".
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'

function createStore (maxTrackedCallers?: number) {
  const clock = new VirtualClock()
  return { clock, store: new MemoryQuotaStore({ clock: clock.now, ...(maxTrackedCallers !== undefined && { maxTrackedCallers }) }) }
}

t.test('at most 10,000 callers have a counter of their own', async (t) => {
  const { store } = createStore()
  const overflowing = Array.from({ length: 10_000 }, (_, caller) => store.acquire(`caller ${caller}`, 1)).filter(({ overflow }) => overflow)
  t.same(overflowing, [])
  t.equal(store.acquire('one more', 1).overflow, true)
  t.equal(store.inspect().trackedCallers, 10_000)
})

t.test("the overflow counter has the same window and limit as a caller's own counter", async (t) => {
  const { clock, store } = createStore(1)
  store.acquire('tracked', 2)
  clock.advance(30_000)
  t.same(store.acquire('a', 2), { admitted: true, count: 1, windowRemaining: 60_000, overflow: true })
  clock.advance(59_999)
  t.same(store.acquire('a', 2), { admitted: true, count: 2, windowRemaining: 1, overflow: true })
  t.same(store.acquire('a', 2), { admitted: false, count: 2, windowRemaining: 1, overflow: true })
})

t.test('callers without a counter of their own share the count of the overflow counter until its window ends', async (t) => {
  const { clock, store } = createStore(1)
  store.acquire('tracked', 1)
  t.equal(store.acquire('a', 1).admitted, true)
  t.equal(store.acquire('b', 1).admitted, false)
  clock.advance(60_000)
  t.equal(store.acquire('b', 1).admitted, true)
  t.equal(store.acquire('a', 1).admitted, false)
})

t.test('a caller that has a counter keeps using it after the cap is reached', async (t) => {
  const { store } = createStore(1)
  store.acquire('tracked', 3)
  store.acquire('a', 3)
  t.same(store.acquire('tracked', 3), { admitted: true, count: 2, windowRemaining: 60_000, overflow: false })
})
