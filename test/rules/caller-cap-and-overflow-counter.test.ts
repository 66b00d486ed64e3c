// Specification, section 8: the constants and the overflow rules.
import t from 'tap'
import { MemoryQuotaStore } from '../lib/index.js'
import { VirtualClock } from '../lib/testing/virtual-clock.js'
import { alice, analyze, createService } from './support/service.js'

function createStore (maxTrackedCallers?: number) {
  const clock = new VirtualClock()
  return { clock, store: new MemoryQuotaStore({ clock: clock.now, ...(maxTrackedCallers !== undefined && { maxTrackedCallers }) }) }
}

t.test('window length: 60 seconds, fixed, from when the counter is created or last reset', async (t) => {
  const { clock, store } = createStore()
  store.acquire('a', 2)
  clock.advance(59_000)
  store.acquire('a', 2)
  clock.advance(1_000)
  t.same(store.acquire('a', 2), { admitted: true, count: 1, windowRemaining: 60_000, overflow: false }, 'the window is fixed, not sliding')
})

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

t.test('counter retention: 120 seconds since the last request seen', async (t) => {
  for (const [gap, tracked] of [[119_999, 2], [120_000, 1], [120_001, 1]] as const) {
    const { clock, store } = createStore()
    store.acquire('a', 1)
    clock.advance(gap)
    store.acquire('b', 1)
    t.equal(store.inspect().trackedCallers, tracked, `${gap} ms`)
  }
})

t.test('cleanup sweep interval: 60 seconds', async (t) => {
  for (const [gap, sweeps] of [[59_999, 0], [60_000, 1], [60_001, 1]] as const) {
    const { clock, store } = createStore()
    store.acquire('a', 1)
    clock.advance(gap)
    store.acquire('a', 1)
    t.equal(store.inspect().sweeps, sweeps, `${gap} ms`)
  }
})

t.test('maximum tracked callers: 10,000', async (t) => {
  const { store } = createStore()
  for (let caller = 0; caller < 10_000; caller++) t.equal(store.acquire(`caller ${caller}`, 1).overflow, false)
  t.equal(store.acquire('one more', 1).overflow, true)
  t.equal(store.inspect().trackedCallers, 10_000)
})

t.test('overflow rule 1: uses the same window and limit as any other counter', async (t) => {
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
