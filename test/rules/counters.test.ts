// docs/rules.md, "Store": a window, and what a memory store has beside the rules of every store,
// which are checked in test/stores.
import t from 'tap'
import { MemoryQuotaStore, type Acquisition } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { demand, estimate, place } from '../support/demands.js'
import { heapUsed } from '../support/heap.js'

/** Acquires one request of a caller, or a place of one. */
function acquire (store: MemoryQuotaStore, callerKey: string, window: number | null = 60_000) {
  const more = window === null ? place(1) : { limit: 1, window }
  const [acquisition] = store.acquire([demand(callerKey, more)])
  if (acquisition === undefined) throw new Error('nothing was acquired')
  return acquisition
}

// A function of its own, because the frame of a loop can keep what it has iterated over alive.
function settleAll (store: MemoryQuotaStore, acquisitions: readonly Acquisition[]): void {
  acquisitions.forEach((acquisition) => {
    store.settle(acquisition.receipt, { count: 1, held: 1 })
  })
}

t.test('at most 10,000 callers have a counter of their own by default', async (t) => {
  const store = new MemoryQuotaStore()
  const overflowing = Array.from({ length: 10_000 }, (_, caller) =>
    acquire(store, `caller ${caller}`)
  ).filter(({ overflow }) => overflow)
  t.same(overflowing, [])
  t.equal(acquire(store, 'one more').overflow, true)
  t.equal(store.inspect('default').trackedCallers, 10_000)
})

t.test('a counter that a sweep has removed opens a new window, even with the same end', (t) => {
  const clock = new VirtualClock()
  const store = new MemoryQuotaStore({ clock: clock.now })
  const day = demand('alice', { start: 0, end: 86_400_000 })
  t.match(store.acquire([day]), [{ count: 1, end: 86_400_000 }])
  clock.advance(120_000)
  t.match(store.acquire([day]), [{ count: 1, end: 86_400_000 }])
  t.end()
})

t.test('what was admitted two periods of ten minutes ago is not held by a later estimate', (t) => {
  const clock = new VirtualClock()
  const store = new MemoryQuotaStore({ clock: clock.now })
  const tokens = (most: number) => demand('alice', estimate(most, { limit: 200, window: 1e9 }))
  t.match(store.acquire([tokens(100)]), [{ count: 100, held: 100 }])
  clock.advance(1_200_000)
  t.match(store.acquire([tokens(5)]), [{ count: 105, held: 5 }])
  t.end()
})

t.test('no more is held than is counted, also of two periods of ten minutes', (t) => {
  const clock = new VirtualClock()
  const store = new MemoryQuotaStore({ clock: clock.now })
  const limit = Number.MAX_SAFE_INTEGER
  const tokens = (most: number) => demand('alice', estimate(most, { limit, window: 1e9 }))
  t.match(store.acquire([tokens(limit)]), [{ count: limit, held: limit }])
  clock.advance(600_000)
  t.match(store.acquire([tokens(10)]), [{ count: limit, held: limit }])
  t.end()
})

t.test(
  'the memory of counters is freed by a sweep, and that of places when they are free',
  async (t) => {
    const callers = Array.from({ length: 10_000 }, (_, caller) => `caller ${caller}`)
    const clock = new VirtualClock()
    const store = new MemoryQuotaStore({ clock: clock.now })
    const empty = heapUsed()
    for (const caller of callers) acquire(store, caller)
    const places = callers.map((caller) => acquire(store, caller, null))
    const full = heapUsed()
    clock.advance(120_000)
    acquire(store, 'somebody')
    settleAll(store, places)
    places.length = 0
    const left = heapUsed()
    // Each of both takes more than a quarter.
    t.ok(
      left - empty < (full - empty) / 5,
      `${full - empty} bytes for the callers, ${left - empty} bytes after them`
    )
  }
)

t.test('the default clock is monotonic', async (t) => {
  const store = new MemoryQuotaStore()
  const wallClock = Date.now
  t.teardown(() => {
    Date.now = wallClock
  })
  acquire(store, 'a')
  Date.now = () => wallClock() + 3_600_000
  t.equal(acquire(store, 'a').admitted, false)
})

t.test(
  'the constructor throws an error with the name and the value of an invalid option',
  async (t) => {
    const invalid: [unknown, RegExp][] = [
      ...[0, 1.5, 2 ** 24 + 1].map((maxTrackedCallers): [object, RegExp] => [
        { maxTrackedCallers },
        new RegExp(
          'option maxTrackedCallers must be an integer from 1 to 16777216; it got ' +
            `${maxTrackedCallers}`
        )
      ]),
      [{ clock: 5 }, /option clock must be a function; it got 5/],
      [{ max: 3 }, /option max does not exist; it got 3/],
      [null, /option options must be a plain object; it got null/],
      [3, /option options must be a plain object; it got 3/]
    ]
    for (const [options, message] of invalid) {
      t.throws(
        () => Reflect.construct(MemoryQuotaStore, [options]),
        { code: 'FST_ERR_LLM_QUOTA_OPTION', message },
        String(message)
      )
    }
  }
)
