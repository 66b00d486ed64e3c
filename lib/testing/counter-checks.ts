import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import { caller, checks, largeCap, unlimited } from './checks.js'

/** Checks of the rules in docs/rules.md, "Counter and window". */
export const counterChecks = checks(largeCap, [], {
  async 'admits as many requests as the limit allows, and rejects the next' ({ store, window }) {
    for (let count = 1; count <= 3; count++) {
      deepStrictEqual(await store.acquire(caller(1), 3), { admitted: true, count, windowRemaining: window, overflow: false })
    }
    deepStrictEqual(await store.acquire(caller(1), 3), { admitted: false, count: 3, windowRemaining: window, overflow: false })
  },

  async 'counts each caller separately' ({ store }) {
    await store.acquire(caller(1), 1)
    strictEqual((await store.acquire(caller(2), 1)).admitted, true)
    strictEqual((await store.acquire(caller(1), 1)).admitted, false)
  },

  async 'applies the limit of each request, and does not count rejected requests' ({ store }) {
    const results = []
    for (const limit of [2, 2, 2, 1, 3, 3, unlimited]) results.push(await store.acquire(caller(1), limit))
    deepStrictEqual(results.map(({ admitted }) => admitted), [true, true, false, false, true, false, true])
    deepStrictEqual(results.map(({ count }) => count), [1, 2, 2, 2, 3, 3, 4])
  },

  async 'opens a window with the first request, and no later request, admitted or rejected, extends it' ({ store, clock, window }) {
    await store.acquire(caller(1), 2)
    clock.advance(window / 2)
    deepStrictEqual(await store.acquire(caller(1), 2), { admitted: true, count: 2, windowRemaining: window / 2, overflow: false })
    clock.advance(window / 2 - 1)
    deepStrictEqual(await store.acquire(caller(1), 2), { admitted: false, count: 2, windowRemaining: 1, overflow: false })
    clock.advance(1)
    deepStrictEqual(await store.acquire(caller(1), 2), { admitted: true, count: 1, windowRemaining: window, overflow: false })
  },

  async 'opens the next window with the first request after the previous window, and not at the end of that window' ({ store, clock, window }) {
    await store.acquire(caller(1), 1)
    clock.advance(window + 1_000)
    deepStrictEqual(await store.acquire(caller(1), 1), { admitted: true, count: 1, windowRemaining: window, overflow: false })
    clock.advance(window - 1)
    deepStrictEqual(await store.acquire(caller(1), 1), { admitted: false, count: 1, windowRemaining: 1, overflow: false })
  },

  async 'admits a request whose cost exceeds the limit if the count is below the limit, and adds the whole cost' ({ store }) {
    const results = []
    for (const cost of [4, 5, 6, 1]) results.push(await store.acquire(caller(1), 10, cost))
    deepStrictEqual(results.map(({ admitted }) => admitted), [true, true, true, false])
    deepStrictEqual(results.map(({ count }) => count), [4, 9, 15, 15])
  },

  async 'a cost of 0 adds nothing, but opens the window' ({ store, clock, window }) {
    deepStrictEqual(await store.acquire(caller(1), 1, 0), { admitted: true, count: 0, windowRemaining: window, overflow: false })
    clock.advance(window - 1)
    deepStrictEqual(await store.acquire(caller(1), 1), { admitted: true, count: 1, windowRemaining: 1, overflow: false })
    deepStrictEqual(await store.acquire(caller(1), 1, 0), { admitted: false, count: 1, windowRemaining: 1, overflow: false })
    clock.advance(1)
    deepStrictEqual(await store.acquire(caller(1), 1, 0), { admitted: true, count: 0, windowRemaining: window, overflow: false })
  },

  async 'adds the cost of each request whose limit is the largest safe integer, even after a rejected request' ({ store }) {
    for (let request = 0; request < 2; request++) await store.acquire(caller(1), 1)
    strictEqual((await store.acquire(caller(1), unlimited, 20)).count, 21)
    deepStrictEqual(await store.acquire(caller(1), 21, 0), { ...await store.acquire(caller(1), unlimited, 0), admitted: false })
  },

  async 'adds costs exactly, up to the largest safe integer' ({ store }) {
    const cost = 2 ** 51 + 1
    for (let count = cost; count <= 3 * cost; count += cost) strictEqual((await store.acquire(caller(1), unlimited, cost)).count, count)
    strictEqual((await store.acquire(caller(1), unlimited, cost)).count, unlimited)
  }
})
