import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { sweepInterval } from '../store/counter.js'
import { windowLength } from '../store/counter.js'
import { caller, everyShard, overflow, smallCap, visit, type Checks } from './visits.js'

/** Checks for the rules in docs/rules.md, "Caller cap and overflow counter", for stores with the small cap. */
export const overflowChecks: Checks = {
  async 'tracks no more callers than the caller cap' ({ store }) {
    const overflowing = await overflow(store, 1_000)
    ok(overflowing.length > 0, 'no caller was served by an overflow counter')
    ok((await store.inspect()).trackedCallers <= smallCap)
    strictEqual((await store.inspect()).trackedCallers + overflowing.length, everyShard)
  },

  async 'shares the overflow counter among all callers without a counter of their own' ({ store }) {
    const admitted = (await overflow(store, 1)).filter((acquisition) => acquisition.admitted)
    ok(admitted.length >= 1 && admitted.length <= smallCap, `the overflow counters admitted ${admitted.length} requests instead of 1 each`)
  },

  async 'gives the overflow counter the same window and limit as other counters' ({ store, clock }) {
    const [first] = await overflow(store, 1_000)
    ok(first !== undefined)
    const { caller, ...acquisition } = first
    deepStrictEqual(acquisition, { admitted: true, count: 1, windowRemaining: windowLength, overflow: true })
    clock.advance(windowLength - 1)
    const { count, windowRemaining } = await store.acquire(caller, 1_000)
    ok(count > 1)
    strictEqual(windowRemaining, 1)
    strictEqual((await store.acquire(caller, count)).admitted, false)
    clock.advance(1)
    deepStrictEqual(await store.acquire(caller, 1), { admitted: true, count: 1, windowRemaining: windowLength, overflow: true })
  },

  async 'callers that have a counter keep using it' ({ store }) {
    await store.acquire(caller(0), 2)
    await overflow(store, 1)
    deepStrictEqual(await store.acquire(caller(0), 2), { admitted: true, count: 2, windowRemaining: windowLength, overflow: false })
  },

  async 'sweeps before it looks up the caller' ({ store, clock }) {
    await overflow(store, 1)
    clock.advance(120_000)
    strictEqual((await store.acquire(caller(2 * everyShard), 1)).overflow, false)
  },

  async 'clearCounters removes all counters, the overflow counter and the count of sweeps' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(sweepInterval)
    const before = await overflow(store, 1)
    await store.clearCounters()
    deepStrictEqual(await store.inspect(), { trackedCallers: 0, sweeps: 0 })
    deepStrictEqual(await overflow(store, 1), before)
    strictEqual((await store.inspect()).sweeps, 0)
  }
}
