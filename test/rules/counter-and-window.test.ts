// docs/rules.md, "Counter and window": one test for each row of the table.
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'

function createStore (maxTrackedCallers = 10_000) {
  const clock = new VirtualClock()
  return { clock, store: new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers }) }
}

t.test('absent, the caller cap is not reached: a counter is created and the acquire step runs', async (t) => {
  const { store } = createStore()
  t.same(store.acquire('a', 5), { admitted: true, count: 1, windowRemaining: 60_000, overflow: false })
  t.equal(store.inspect().trackedCallers, 1)
})

t.test('absent, the caller cap is reached: the overflow counter is used, and no counter is created', async (t) => {
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
  t.test(`a store with ${JSON.stringify(options)} is reported by name`, async (t) => {
    const [[name, value] = []] = Object.entries(options)
    const create = () => Reflect.construct(MemoryQuotaStore, [options])
    const rule = name === 'clock' ? 'must be a function' : 'must be an integer from 1 to 16777216'
    t.throws(create, { code: 'FST_ERR_LLM_QUOTA_OPTION', message: new RegExp(`option ${name} ${rule}.*it got ${value}`) })
  })
}

t.test('an option that does not exist, and options that are not an object, are reported', async (t) => {
  const code = 'FST_ERR_LLM_QUOTA_OPTION'
  t.throws(() => Reflect.construct(MemoryQuotaStore, [{ max: 3 }]), { code, message: /option max does not exist; it got 3/ })
  t.throws(() => Reflect.construct(MemoryQuotaStore, [null]), { code, message: /option options must be an object; it got null/ })
  t.throws(() => Reflect.construct(MemoryQuotaStore, [3]), { code, message: /option options must be an object; it got 3/ })
})

t.test('a store may track as many callers as a Map can hold', async (t) => {
  t.doesNotThrow(() => new MemoryQuotaStore({ maxTrackedCallers: 2 ** 24 }))
})

t.test('window length: 60 seconds, fixed, from when the counter is created or last reset', async (t) => {
  const { clock, store } = createStore()
  store.acquire('a', 2)
  clock.advance(59_000)
  store.acquire('a', 2)
  clock.advance(1_000)
  t.same(store.acquire('a', 2), { admitted: true, count: 1, windowRemaining: 60_000, overflow: false }, 'the window is fixed, not sliding')
})
