// Specification, section 3: states and transitions, a test for every row of the table.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { MemoryQuotaStore } from '../lib/index.js'
import { VirtualClock } from '../lib/testing/virtual-clock.js'

function createStore (maxTrackedCallers = 10_000) {
  const clock = new VirtualClock()
  return { clock, store: new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers }) }
}

t.test('absent, fewer than the most tracked callers: a counter is created and the acquire step runs', async (t) => {
  const { store } = createStore()
  t.same(store.acquire('a', 5), { admitted: true, count: 1, windowRemaining: 60_000, overflow: false })
  t.equal(store.inspect().trackedCallers, 1)
})

t.test('absent, as many tracked callers as may be: the overflow counter serves, and no counter is created', async (t) => {
  const { store } = createStore(1)
  store.acquire('a', 5)
  t.same(store.acquire('b', 5), { admitted: true, count: 1, windowRemaining: 60_000, overflow: true })
  t.equal(store.inspect().trackedCallers, 1)
})

t.test('active, 60 s since the window started: a new window, then the acquire step', async (t) => {
  const { clock, store } = createStore()
  store.acquire('a', 1)
  clock.advance(59_999)
  t.same(store.acquire('a', 1), { admitted: false, count: 1, windowRemaining: 1, overflow: false })
  clock.advance(1)
  t.same(store.acquire('a', 1), { admitted: true, count: 1, windowRemaining: 60_000, overflow: false })
})

t.test('active, window open and count below the limit: counted and admitted, and seen', async (t) => {
  const { clock, store } = createStore()
  store.acquire('a', 2)
  clock.advance(1_000)
  t.same(store.acquire('a', 2), { admitted: true, count: 2, windowRemaining: 59_000, overflow: false })
})

t.test('active, window open and count at the limit: rejected and not counted, but seen', async (t) => {
  const { clock, store } = createStore()
  store.acquire('a', 1)
  clock.advance(59_999)
  t.same(store.acquire('a', 1), { admitted: false, count: 1, windowRemaining: 1, overflow: false })
  clock.advance(119_999)
  store.acquire('b', 1)
  t.equal(store.inspect().trackedCallers, 2, 'the rejected request kept the counter')
  clock.advance(60_001)
  store.acquire('b', 1)
  t.equal(store.inspect().trackedCallers, 1)
})

t.test('active, a limit lowered below the count: rejected', async (t) => {
  const { store } = createStore()
  for (let request = 0; request < 3; request++) store.acquire('a', 5)
  t.same(store.acquire('a', 2), { admitted: false, count: 3, windowRemaining: 60_000, overflow: false })
})

t.test('cleanup sweep: a counter last seen 120 s ago or longer is removed, and no other', async (t) => {
  const { clock, store } = createStore()
  store.acquire('old', 5)
  clock.advance(1)
  store.acquire('young', 5)
  clock.advance(119_999)
  store.acquire('now', 5)
  t.same(store.inspect(), { trackedCallers: 2, sweeps: 1 })
})

t.test('cleanup sweep: runs with a request, when 60 s have passed since the previous one', async (t) => {
  const { clock, store } = createStore()
  store.acquire('a', 5)
  clock.advance(59_999)
  store.acquire('a', 5)
  t.equal(store.inspect().sweeps, 0)
  clock.advance(1)
  t.equal(store.inspect().sweeps, 0, 'no timer sweeps')
  store.acquire('a', 5)
  t.equal(store.inspect().sweeps, 1)
  clock.advance(59_999)
  store.acquire('a', 5)
  t.equal(store.inspect().sweeps, 1)
})

t.test('cleanup sweep: runs before the counter is looked up', async (t) => {
  const { clock, store } = createStore(1)
  store.acquire('a', 5)
  clock.advance(120_000)
  t.equal(store.acquire('b', 5).overflow, false)
})

t.test('clearCounters: forgets the counters, the overflow counter and the number of sweeps', async (t) => {
  const { clock, store } = createStore(1)
  store.acquire('a', 1)
  store.acquire('b', 1)
  clock.advance(60_000)
  store.acquire('a', 1)
  store.acquire('b', 1)
  store.clearCounters()
  t.same(store.inspect(), { trackedCallers: 0, sweeps: 0 })
  t.same(store.acquire('b', 1), { admitted: true, count: 1, windowRemaining: 60_000, overflow: false })
  t.same(store.acquire('a', 1), { admitted: true, count: 1, windowRemaining: 60_000, overflow: true })
})

t.test('the clock is monotonic by default', async (t) => {
  const store = new MemoryQuotaStore()
  const wallClock = Date.now
  t.teardown(() => { Date.now = wallClock })
  store.acquire('a', 1)
  Date.now = () => wallClock() + 3_600_000
  t.equal(store.acquire('a', 1).admitted, false)
})

for (const options of [{ maxTrackedCallers: 0 }, { maxTrackedCallers: 1.5 }, { maxTrackedCallers: 2 ** 24 + 1 }, { clock: 5 }]) {
  t.test(`a store with ${JSON.stringify(options)} is refused by name`, async (t) => {
    const [[name, value] = []] = Object.entries(options)
    const create = () => Reflect.construct(MemoryQuotaStore, [options])
    const rule = name === 'clock' ? 'must be a function' : 'must be an integer from 1 to 16777216'
    t.throws(create, { code: 'FST_ERR_LLM_QUOTA_OPTION', message: new RegExp(`option ${name} ${rule}.*it got ${value}`) })
  })
}

t.test('a store may track as many callers as a Map can hold', async (t) => {
  t.doesNotThrow(() => new MemoryQuotaStore({ maxTrackedCallers: 2 ** 24 }))
})

t.test('what a sweep removed makes room at once, wherever among the counters it lies and however many there are', async (t) => {
  const clock = new VirtualClock()
  const store = new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers: 4_000 })
  for (let caller = 0; caller < 4_000; caller++) store.acquire(`caller ${caller}`, 1)
  clock.advance(119_999)
  for (let caller = 0; caller < 2_500; caller++) store.acquire(`caller ${caller}`, 1)
  clock.advance(60_000)
  t.match(store.acquire('somebody new', 1), { admitted: true, count: 1, overflow: false }, 'the 1,500 that go lie behind the 2,500 that stay')
  t.same(store.inspect(), { trackedCallers: 2_501, sweeps: 2 })
  t.match(store.acquire('caller 3999', 1), { admitted: true, count: 1, overflow: false }, 'who was removed comes back anew')
  t.same(store.inspect(), { trackedCallers: 2_502, sweeps: 2 })
  for (let caller = 0; caller < 1_498; caller++) store.acquire(`another ${caller}`, 1)
  t.match(store.inspect(), { trackedCallers: 4_000 })
  t.equal(store.acquire('one too many', 1).overflow, true)
})

t.test('cleanup sweep: the memory of the counters that it removed is given back over the requests that follow', async (t) => {
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
  t.ok(swept - empty < (full - empty) / 4, `${full - empty} bytes of ${100_000} counters, ${swept - empty} when they were gone`)
})
