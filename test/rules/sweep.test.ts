// docs/rules.md, "Sweep".
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'

function createStore (maxTrackedCallers = 10_000) {
  const clock = new VirtualClock()
  return { clock, store: new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers }) }
}

t.test('a sweep removes each counter whose lastSeen is 120 s or more in the past, and no other', async (t) => {
  const { clock, store } = createStore()
  store.acquire('old', 5)
  clock.advance(1)
  store.acquire('young', 5)
  clock.advance(119_999)
  store.acquire('now', 5)
  t.same(store.inspect(), { trackedCallers: 2, sweeps: 1 })
})

t.test('a request runs a sweep if the last sweep was 60 s or more ago', async (t) => {
  const { clock, store } = createStore()
  store.acquire('a', 5)
  clock.advance(59_999)
  store.acquire('a', 5)
  t.equal(store.inspect().sweeps, 0)
  clock.advance(1)
  t.equal(store.inspect().sweeps, 0, 'no timer runs a sweep')
  store.acquire('a', 5)
  t.equal(store.inspect().sweeps, 1)
  clock.advance(59_999)
  store.acquire('a', 5)
  t.equal(store.inspect().sweeps, 1)
})

t.test('a sweep runs before the counter of the request is looked up', async (t) => {
  const { clock, store } = createStore(1)
  store.acquire('a', 5)
  clock.advance(120_000)
  t.equal(store.acquire('b', 5).overflow, false)
})

t.test('removed counters make room for new callers at once, however many there are and whenever they were created', async (t) => {
  const clock = new VirtualClock()
  const store = new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers: 4_000 })
  for (let caller = 0; caller < 4_000; caller++) store.acquire(`caller ${caller}`, 1)
  clock.advance(119_999)
  for (let caller = 0; caller < 2_500; caller++) store.acquire(`caller ${caller}`, 1)
  clock.advance(60_000)
  t.match(store.acquire('somebody new', 1), { admitted: true, count: 1, overflow: false }, 'the 1,500 removed counters were created after the 2,500 that remain')
  t.same(store.inspect(), { trackedCallers: 2_501, sweeps: 2 })
  t.match(store.acquire('caller 3999', 1), { admitted: true, count: 1, overflow: false }, 'a removed caller gets a new counter')
  t.same(store.inspect(), { trackedCallers: 2_502, sweeps: 2 })
  for (let caller = 0; caller < 1_498; caller++) store.acquire(`another ${caller}`, 1)
  t.match(store.inspect(), { trackedCallers: 4_000 })
  t.equal(store.acquire('one too many', 1).overflow, true)
})

t.test('the requests after a sweep free the memory of the removed counters', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const heap = (): number => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const { clock, store } = createStore(100_000)
  const empty = heap()
  for (let caller = 0; caller < 100_000; caller++) store.acquire(`caller ${caller}`, 10)
  const full = heap()
  clock.advance(120_000)
  for (let request = 0; request < 200; request++) store.acquire('somebody', 10)
  const swept = heap()
  t.same(store.inspect(), { trackedCallers: 1, sweeps: 1 })
  t.ok(swept - empty < (full - empty) / 4, `${full - empty} bytes for ${100_000} counters, ${swept - empty} bytes after the sweep`)
})

t.test('a counter is kept for 120 seconds after its last request', async (t) => {
  for (const [gap, tracked] of [[119_999, 2], [120_000, 1], [120_001, 1]] as const) {
    const { clock, store } = createStore()
    store.acquire('a', 1)
    clock.advance(gap)
    store.acquire('b', 1)
    t.equal(store.inspect().trackedCallers, tracked, `${gap} ms`)
  }
})

t.test('the interval between sweeps is 60 seconds', async (t) => {
  for (const [gap, sweeps] of [[59_999, 0], [60_000, 1], [60_001, 1]] as const) {
    const { clock, store } = createStore()
    store.acquire('a', 1)
    clock.advance(gap)
    store.acquire('a', 1)
    t.equal(store.inspect().sweeps, sweeps, `${gap} ms`)
  }
})
