// docs/rules.md, "Counter and window": the rows of the table, clearCounters, and the options of the memory store.
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'

function createStore (maxTrackedCallers = 10_000) {
  const clock = new VirtualClock()
  return { clock, store: new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers }) }
}

t.test('the first request of a caller creates a counter if the cap is not reached, and then the acquire step runs', async (t) => {
  const { store } = createStore()
  t.same(store.acquire('a', 5), { admitted: true, count: 1, windowRemaining: 60_000, overflow: false })
  t.equal(store.inspect().trackedCallers, 1)
})

t.test('a caller without a counter uses the overflow counter if the cap is reached, and no counter is created', async (t) => {
  const { store } = createStore(1)
  store.acquire('a', 5)
  t.same(store.acquire('b', 5), { admitted: true, count: 1, windowRemaining: 60_000, overflow: true })
  t.equal(store.inspect().trackedCallers, 1)
})

t.test('a new window begins 60 s after the start of the previous one, and then the acquire step runs', async (t) => {
  const { clock, store } = createStore()
  store.acquire('a', 1)
  clock.advance(59_999)
  t.same(store.acquire('a', 1), { admitted: false, count: 1, windowRemaining: 1, overflow: false })
  clock.advance(1)
  t.same(store.acquire('a', 1), { admitted: true, count: 1, windowRemaining: 60_000, overflow: false })
})

t.test('a request is admitted and counted if the count is below the limit', async (t) => {
  const { clock, store } = createStore()
  store.acquire('a', 2)
  clock.advance(1_000)
  t.same(store.acquire('a', 2), { admitted: true, count: 2, windowRemaining: 59_000, overflow: false })
})

t.test('a request at the limit is rejected and not counted, but updates lastSeen', async (t) => {
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

t.test('a request is rejected if the limit has been lowered below the count', async (t) => {
  const { store } = createStore()
  for (let request = 0; request < 3; request++) store.acquire('a', 5)
  t.same(store.acquire('a', 2), { admitted: false, count: 3, windowRemaining: 60_000, overflow: false })
})

t.test('clearCounters removes the counters and the overflow counter, and sets the number of sweeps to 0', async (t) => {
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

t.test('the default clock is monotonic', async (t) => {
  const store = new MemoryQuotaStore()
  const wallClock = Date.now
  t.teardown(() => { Date.now = wallClock })
  store.acquire('a', 1)
  Date.now = () => wallClock() + 3_600_000
  t.equal(store.acquire('a', 1).admitted, false)
})

for (const options of [{ maxTrackedCallers: 0 }, { maxTrackedCallers: 1.5 }, { maxTrackedCallers: 2 ** 24 + 1 }, { clock: 5 }]) {
  t.test(`the error for the options ${JSON.stringify(options)} contains the name and the value of the option`, async (t) => {
    const [[name, value] = []] = Object.entries(options)
    const create = () => Reflect.construct(MemoryQuotaStore, [options])
    const rule = name === 'clock' ? 'must be a function' : 'must be an integer from 1 to 16777216'
    t.throws(create, { code: 'FST_ERR_LLM_QUOTA_OPTION', message: new RegExp(`option ${name} ${rule}.*it got ${value}`) })
  })
}

t.test('the constructor throws if an option does not exist or the options are not an object', async (t) => {
  const code = 'FST_ERR_LLM_QUOTA_OPTION'
  t.throws(() => Reflect.construct(MemoryQuotaStore, [{ max: 3 }]), { code, message: /option max does not exist; it got 3/ })
  t.throws(() => Reflect.construct(MemoryQuotaStore, [null]), { code, message: /option options must be an object; it got null/ })
  t.throws(() => Reflect.construct(MemoryQuotaStore, [3]), { code, message: /option options must be an object; it got 3/ })
})

t.test('a window ends 60 seconds after its start, even if it has counted further requests', async (t) => {
  const { clock, store } = createStore()
  store.acquire('a', 2)
  clock.advance(59_000)
  store.acquire('a', 2)
  clock.advance(1_000)
  t.same(store.acquire('a', 2), { admitted: true, count: 1, windowRemaining: 60_000, overflow: false }, 'the window is fixed, not sliding')
})
