// docs/rules.md, "Store": its counters, the caller cap and the sweep, in a memory store.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { MemoryQuotaStore, type QuotaStoreState } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'

function createStore (maxTrackedCallers = 10_000) {
  const clock = new VirtualClock()
  return { clock, store: new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers }) }
}

/** A request: milliseconds after the one before, its caller and limit, and the result as `admitted|rejected count windowRemaining`. */
type Step = [later: number, caller: string, limit: number, result: string]

const walks: Record<string, { cap?: number, steps: Step[], state?: QuotaStoreState }> = {
  'the first request of a caller creates a counter, and further ones are admitted and counted up to the limit': {
    steps: [[0, 'a', 2, 'admitted 1 60000'], [1_000, 'a', 2, 'admitted 2 59000'], [0, 'a', 2, 'rejected 2 59000'], [0, 'b', 2, 'admitted 1 60000']], state: { trackedCallers: 2, sweeps: 0 }
  },
  'a new window begins 60 s after the start of the previous one': {
    steps: [[0, 'a', 1, 'admitted 1 60000'], [59_999, 'a', 1, 'rejected 1 1'], [1, 'a', 1, 'admitted 1 60000']]
  },
  'the window is fixed, not sliding, even if it has counted further requests': {
    steps: [[0, 'a', 2, 'admitted 1 60000'], [59_000, 'a', 2, 'admitted 2 1000'], [1_000, 'a', 2, 'admitted 1 60000']]
  },
  'a request is rejected if the limit has been lowered below the count': {
    steps: [[0, 'a', 5, 'admitted 1 60000'], [0, 'a', 5, 'admitted 2 60000'], [0, 'a', 5, 'admitted 3 60000'], [0, 'a', 2, 'rejected 3 60000']]
  },
  'a rejected request updates lastSeen, which keeps its counter': {
    steps: [[0, 'a', 1, 'admitted 1 60000'], [59_999, 'a', 1, 'rejected 1 1'], [119_999, 'b', 1, 'admitted 1 60000']], state: { trackedCallers: 2, sweeps: 1 }
  },
  'a caller without a counter uses the overflow counter if the cap is reached, and no counter is created': {
    cap: 1, steps: [[0, 'a', 5, 'admitted 1 60000'], [0, 'b', 5, 'overflow admitted 1 60000']], state: { trackedCallers: 1, sweeps: 0 }
  },
  'the overflow counter has the same window and limit, and its callers share its count until its window ends': {
    cap: 1,
    steps: [
      [0, 'tracked', 2, 'admitted 1 60000'], [30_000, 'a', 2, 'overflow admitted 1 60000'], [0, 'b', 2, 'overflow admitted 2 60000'], [0, 'a', 2, 'overflow rejected 2 60000'],
      [59_999, 'c', 2, 'overflow rejected 2 1'], [1, 'b', 1, 'overflow admitted 1 60000'], [0, 'a', 1, 'overflow rejected 1 60000']
    ]
  },
  'a caller that has a counter keeps using it after the cap is reached': {
    cap: 1, steps: [[0, 'tracked', 3, 'admitted 1 60000'], [0, 'a', 3, 'overflow admitted 1 60000'], [0, 'tracked', 3, 'admitted 2 60000']]
  },
  'a sweep removes each counter whose lastSeen is 120 s or more in the past, and no other': {
    steps: [[0, 'old', 5, 'admitted 1 60000'], [1, 'young', 5, 'admitted 1 60000'], [119_999, 'now', 5, 'admitted 1 60000']], state: { trackedCallers: 2, sweeps: 1 }
  },
  'a request runs a sweep if the last sweep, or the first request, was 60 s or more ago': {
    steps: [[0, 'a', 5, 'admitted 1 60000'], [60_000, 'a', 5, 'admitted 1 60000'], [59_999, 'a', 5, 'admitted 2 1'], [1, 'a', 5, 'admitted 1 60000']], state: { trackedCallers: 1, sweeps: 2 }
  },
  'a request less than 60 s after the first one runs no sweep': {
    steps: [[0, 'a', 5, 'admitted 1 60000'], [59_999, 'a', 5, 'admitted 2 1']], state: { trackedCallers: 1, sweeps: 0 }
  },
  'a sweep runs before the counter of the request is looked up': {
    cap: 1, steps: [[0, 'a', 5, 'admitted 1 60000'], [120_000, 'b', 5, 'admitted 1 60000']], state: { trackedCallers: 1, sweeps: 1 }
  }
}

for (const [name, { cap, steps, state }] of Object.entries(walks)) {
  t.test(name, async (t) => {
    const { clock, store } = createStore(cap)
    for (const [later, caller, limit, expected] of steps) {
      clock.advance(later)
      const { admitted, count, windowRemaining, overflow } = store.acquire(caller, limit)
      t.equal(`${overflow ? 'overflow ' : ''}${admitted ? 'admitted' : 'rejected'} ${count} ${windowRemaining}`, expected, `${caller} at ${clock.now()} ms`)
    }
    if (state === undefined) return
    clock.advance(600_000)
    t.same(store.inspect(), state, 'no timer runs a sweep')
  })
}

t.test('at most 10,000 callers have a counter of their own by default', async (t) => {
  const store = new MemoryQuotaStore()
  const overflowing = Array.from({ length: 10_000 }, (_, caller) => store.acquire(`caller ${caller}`, 1)).filter(({ overflow }) => overflow)
  t.same(overflowing, [])
  t.equal(store.acquire('one more', 1).overflow, true)
  t.equal(store.inspect().trackedCallers, 10_000)
})

t.test('removed counters make room for new callers at once, however many there are and whenever they were created', async (t) => {
  const { clock, store } = createStore(4_000)
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

t.test('clearCounters removes the counters and the overflow counter, and sets the number of sweeps to 0', async (t) => {
  const { clock, store } = createStore(1)
  for (const caller of ['a', 'b']) store.acquire(caller, 1)
  clock.advance(60_000)
  for (const caller of ['a', 'b']) store.acquire(caller, 1)
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

t.test('the constructor throws an error with the name and the value of an invalid option', async (t) => {
  const invalid: [unknown, RegExp][] = [
    ...[0, 1.5, 2 ** 24 + 1].map((maxTrackedCallers): [object, RegExp] => [{ maxTrackedCallers }, new RegExp(`option maxTrackedCallers must be an integer from 1 to 16777216; it got ${maxTrackedCallers}`)]),
    [{ clock: 5 }, /option clock must be a function; it got 5/],
    [{ max: 3 }, /option max does not exist; it got 3/],
    [null, /option options must be an object; it got null/],
    [3, /option options must be an object; it got 3/]
  ]
  for (const [options, message] of invalid) t.throws(() => Reflect.construct(MemoryQuotaStore, [options]), { code: 'FST_ERR_LLM_QUOTA_OPTION', message }, String(message))
})
