import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import { admitted, burst, caller, check, inTurn, largeCap, numberAdmitted } from './checks.js'

/** Checks of `enter`. Each gives back its places, because a store on a server would keep them for other checks. */
export const inFlightChecks = [
  check('enter takes a place if the caller has fewer requests in flight than the limit, and a limit of 0 takes none', largeCap, ['enter'], async ({ store }) => {
    const entries = await inTurn([[1, 2], [1, 2], [1, 2], [1, 1], [1, 0], [2, 0], [2, 1], [1, 3]] as const, ([number, limit]) => store.enter(caller(number), limit))
    deepStrictEqual(entries.map(({ admitted }) => admitted), [true, true, false, false, false, false, true, true])
    deepStrictEqual(entries.map(({ count }) => count), [1, 2, 2, 2, 2, 0, 1, 3])
    for (const entry of entries) if (entry.admitted) await entry.leave?.()
    for (const number of [1, 2]) strictEqual((await store.enter(caller(number), 0)).count, 0)
  }),
  check('leave gives back one place of the caller, and none of other callers', largeCap, ['enter'], async ({ store }) => {
    const [first, second, other] = await inTurn([1, 1, 2], (number) => store.enter(caller(number), 2))
    for (const [entry, left] of [[second, 1], [first, 0]] as const) {
      await entry?.leave?.()
      strictEqual((await store.enter(caller(1), 0)).count, left)
    }
    strictEqual((await store.enter(caller(2), 0)).count, 1)
    await other?.leave?.()
  }),
  check('enter admits exactly as many concurrent requests as the limit allows, and each leave gives back one place', largeCap, ['enter'], async ({ store }) => {
    const first = await store.enter(caller(1), 5)
    for (let time = 0; time < 2; time++) {
      const entries = await burst(() => store.enter(caller(1), 5))
      strictEqual(numberAdmitted(entries), 4)
      await burst((index) => entries[index]?.leave?.())
      strictEqual((await store.enter(caller(1), 0)).count, 1)
    }
    await first.leave?.()
  }),
  check('enter does not change the counter of the caller', largeCap, ['enter'], async ({ store, window }) => {
    await store.acquire(caller(1), 5)
    const entry = await store.enter(caller(1), 1)
    await store.acquire(caller(1), 5)
    strictEqual((await store.enter(caller(1), 0)).count, 1)
    await entry.leave?.()
    deepStrictEqual(await store.acquire(caller(1), 5), admitted(3, window))
  })
]
