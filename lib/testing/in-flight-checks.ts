import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import { admitted, burst, caller, checks, largeCap } from './checks.js'

/** Checks of `enter`. Each gives back its places, because a store on a server would keep them for other checks. */
export const inFlightChecks = checks(largeCap, ['enter'], {
  async 'enter takes a place if the caller has fewer requests in flight than the limit, and a limit of 0 takes none' ({ store }) {
    const entries = []
    for (const [number, limit] of [[1, 2], [1, 2], [1, 2], [1, 1], [1, 0], [2, 0], [2, 1], [1, 3]] as const) entries.push(await store.enter(caller(number), limit))
    deepStrictEqual(entries.map(({ admitted }) => admitted), [true, true, false, false, false, false, true, true])
    deepStrictEqual(entries.map(({ count }) => count), [1, 2, 2, 2, 2, 0, 1, 3])
    for (const entry of entries) if (entry.admitted) await entry.leave?.()
    for (const number of [1, 2]) strictEqual((await store.enter(caller(number), 0)).count, 0)
  },

  async 'leave gives back one place of the caller, and none of other callers' ({ store }) {
    const [first, second] = [await store.enter(caller(1), 2), await store.enter(caller(1), 2)]
    const other = await store.enter(caller(2), 1)
    for (const [entry, left] of [[second, 1], [first, 0]] as const) {
      await entry.leave?.()
      strictEqual((await store.enter(caller(1), 0)).count, left)
    }
    strictEqual((await store.enter(caller(2), 0)).count, 1)
    await other.leave?.()
  },

  async 'enter admits exactly as many concurrent requests as the limit allows, and each leave gives back one place' ({ store }) {
    const first = await store.enter(caller(1), 5)
    for (let time = 0; time < 2; time++) {
      const entries = await burst(() => store.enter(caller(1), 5))
      strictEqual(admitted(entries), 4)
      await burst((index) => entries[index]?.leave?.())
      strictEqual((await store.enter(caller(1), 0)).count, 1)
    }
    await first.leave?.()
  },

  async 'enter does not change the counter of the caller' ({ store, window }) {
    await store.acquire(caller(1), 5)
    const entry = await store.enter(caller(1), 1)
    await store.acquire(caller(1), 5)
    strictEqual((await store.enter(caller(1), 0)).count, 1)
    await entry.leave?.()
    deepStrictEqual(await store.acquire(caller(1), 5), { admitted: true, count: 3, windowRemaining: window, overflow: false })
  }
})
