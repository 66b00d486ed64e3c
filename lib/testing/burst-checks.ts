import { ok, strictEqual } from 'node:assert/strict'
import { admitted, burst, caller, checks, everyShard, fill, largeCap, smallCap, unlimited } from './checks.js'

/** Checks of concurrent requests, which find a store that reads a counter and then writes it in a second step. */
export const burstChecks = [
  ...checks(largeCap, [], {
    async 'admits exactly as many concurrent requests as the limit allows: on a new counter' ({ store }) {
      strictEqual(admitted(await burst(() => store.acquire(caller(1), 5))), 5)
    },

    async 'admits exactly as many concurrent requests as the limit allows: on an existing counter' ({ store }) {
      await store.acquire(caller(1), 5)
      strictEqual(admitted(await burst(() => store.acquire(caller(1), 5))), 4)
    },

    async 'admits exactly as many concurrent requests as the limit allows: at the start of a window' ({ store, clock, window }) {
      await store.acquire(caller(1), 5)
      clock.advance(window)
      strictEqual(admitted(await burst(() => store.acquire(caller(1), 5))), 5)
    },

    async 'adds the cost of each concurrent request' ({ store }) {
      await store.acquire(caller(1), unlimited)
      await burst((index) => store.acquire(caller(1), unlimited, index))
      strictEqual((await store.acquire(caller(1), unlimited, 0)).count, 1 + everyShard * (everyShard - 1) / 2)
    }
  }),

  ...checks(smallCap, [], {
    async 'admits exactly as many concurrent requests as the limit allows: on the overflow counter' ({ store, clock, window }) {
      const { overflowing: [{ caller }] } = await fill(store)
      const { count } = await store.acquire(caller, unlimited)
      strictEqual(admitted(await burst(() => store.acquire(caller, count + 5))), 5)
      clock.advance(window)
      strictEqual(admitted(await burst(() => store.acquire(caller, 5))), 5)
    },

    async 'tracks no more callers than the caller cap, and the others share the overflow counter, even if all of them arrive at once' ({ store, clock, retention }) {
      for (const first of [0, everyShard]) {
        const visits = await burst((index) => store.acquire(caller(first + index), 1))
        const overflowing = visits.filter(({ overflow }) => overflow)
        const tracked = visits.length - overflowing.length
        ok(tracked >= 1 && tracked <= smallCap, `${tracked} callers got a counter of their own, and the caller cap is ${smallCap}`)
        ok(admitted(overflowing) >= 1 && admitted(overflowing) <= smallCap, `the overflow counters admitted ${admitted(overflowing)} requests instead of 1 each`)
        clock.advance(retention)
      }
    }
  })
]
