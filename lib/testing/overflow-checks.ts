import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { admitted, checks, everyShard, fill, smallCap, unlimited, visit } from './checks.js'

/** Checks of the rules in docs/rules.md, "Caller cap and overflow counter". */
export const overflowChecks = [
  ...checks(smallCap, [], {
    async 'tracks no more callers than the caller cap, and the others share the overflow counter' ({ store }) {
      const { tracked, overflowing } = await fill(store, 1)
      ok(tracked.length <= smallCap, `${tracked.length} callers got a counter of their own, and the caller cap is ${smallCap}`)
      ok(admitted(overflowing) >= 1 && admitted(overflowing) <= smallCap, `the overflow counters admitted ${admitted(overflowing)} requests instead of 1 each`)
    },

    async 'the overflow counter has the same window and limit as other counters' ({ store, clock, window }) {
      const { overflowing: [{ caller, ...first }] } = await fill(store)
      deepStrictEqual(first, { admitted: true, count: 1, windowRemaining: window, overflow: true })
      clock.advance(window - 1)
      const { count } = await store.acquire(caller, unlimited)
      ok(count > 1)
      deepStrictEqual(await store.acquire(caller, count + 1, 3), { admitted: true, count: count + 3, windowRemaining: 1, overflow: true })
      deepStrictEqual(await store.acquire(caller, count + 3), { admitted: false, count: count + 3, windowRemaining: 1, overflow: true })
      clock.advance(1)
      deepStrictEqual(await store.acquire(caller, 1), { admitted: true, count: 1, windowRemaining: window, overflow: true })
    },

    async 'callers that have a counter keep using it after the caller cap is reached' ({ store, window }) {
      const { tracked } = await fill(store)
      for (const { caller } of tracked) {
        deepStrictEqual(await store.acquire(caller, 2), { admitted: true, count: 2, windowRemaining: window, overflow: false })
      }
    }
  }),

  ...checks(smallCap, ['clearCounters', 'inspect'], {
    async 'clearCounters removes all counters and the overflow counter, and resets the number of sweeps and the interval between them' ({ store, clock }) {
      const before = await visit(store, 0, 1)
      clock.advance(60_000)
      await visit(store, everyShard, 1)
      await store.clearCounters()
      deepStrictEqual(await store.inspect(), { trackedCallers: 0, sweeps: 0 })
      deepStrictEqual(await visit(store, 0, 1), before)
      strictEqual((await store.inspect()).sweeps, 0)
    }
  })
]
