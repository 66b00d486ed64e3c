import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import { windowLength } from '../store/counter.js'
import { caller, type Checks } from './visits.js'

/** Checks for the rules in docs/rules.md, "Counter and window". */
export const windowChecks: Checks = {
  async 'admits as many requests as the limit says, and rejects the next' ({ store }) {
    for (let request = 1; request <= 3; request++) {
      deepStrictEqual(await store.acquire(caller(1), 3), { admitted: true, count: request, windowRemaining: windowLength, overflow: false })
    }
    deepStrictEqual(await store.acquire(caller(1), 3), { admitted: false, count: 3, windowRemaining: windowLength, overflow: false })
  },

  async 'counts each caller separately' ({ store }) {
    await store.acquire(caller(1), 1)
    strictEqual((await store.acquire(caller(2), 1)).admitted, true)
    strictEqual((await store.acquire(caller(1), 1)).admitted, false)
  },

  async 'does not count rejected requests' ({ store }) {
    await store.acquire(caller(1), 1)
    for (let request = 0; request < 5; request++) strictEqual((await store.acquire(caller(1), 1)).count, 1)
    deepStrictEqual(await store.acquire(caller(1), 2), { admitted: true, count: 2, windowRemaining: windowLength, overflow: false })
  },

  async 'applies the limit that each request gives' ({ store }) {
    for (let request = 0; request < 3; request++) await store.acquire(caller(1), 3)
    strictEqual((await store.acquire(caller(1), 2)).admitted, false)
    strictEqual((await store.acquire(caller(1), 4)).admitted, true)
    strictEqual((await store.acquire(caller(1), 4)).admitted, false)
    strictEqual((await store.acquire(caller(1), Number.MAX_SAFE_INTEGER)).count, 5)
  },

  async 'admits exactly as many concurrent requests as the limit says' ({ store }) {
    const acquisitions = await Promise.all(Array.from({ length: 40 }, async () => store.acquire(caller(1), 5)))
    strictEqual(acquisitions.filter(({ admitted }) => admitted).length, 5)
  },

  async 'keeps the window open for 60 s' ({ store, clock }) {
    await store.acquire(caller(1), 1)
    clock.advance(windowLength - 1)
    deepStrictEqual(await store.acquire(caller(1), 1), { admitted: false, count: 1, windowRemaining: 1, overflow: false })
  },

  async 'opens a new window after 60 s' ({ store, clock }) {
    await store.acquire(caller(1), 1)
    clock.advance(windowLength)
    deepStrictEqual(await store.acquire(caller(1), 1), { admitted: true, count: 1, windowRemaining: windowLength, overflow: false })
    strictEqual((await store.acquire(caller(1), 1)).admitted, false)
  },

  async 'opens a new window 60 s after the previous one began, even if requests were rejected in between' ({ store, clock }) {
    await store.acquire(caller(1), 1)
    clock.advance(windowLength / 2)
    strictEqual((await store.acquire(caller(1), 1)).windowRemaining, windowLength / 2)
    clock.advance(windowLength / 2)
    strictEqual((await store.acquire(caller(1), 1)).admitted, true)
  },

  async 'uses a fixed window, not a sliding one' ({ store, clock }) {
    await store.acquire(caller(1), 2)
    clock.advance(windowLength - 1)
    await store.acquire(caller(1), 2)
    clock.advance(1)
    strictEqual((await store.acquire(caller(1), 2)).count, 1)
  }
}
