import { deepStrictEqual, notStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { QuotaStore } from '../store/store.js'
import { caller, check, fill, hasAll, inTurn, largeCap, smallCap, unlimited, visit, type StoreWith } from './checks.js'

/** Checks of `quota`: the default quota and the named quotas of a store share nothing. */
export const quotaChecks = [
  check('quota returns the same store for the same name, and another one for another name', largeCap, ['quota'], async ({ store }) => {
    const again = quotasOf(store)
    for (const [index, quota] of quotasOf(store).entries()) strictEqual(quota, again[index])
    notStrictEqual(again[1], again[2])
  }),
  check('each quota has counters, a caller cap and an overflow counter of its own', smallCap, ['quota'], async ({ store }) => {
    const [first, ...others] = await inTurn(quotasOf(store), async (quota) => {
      const { tracked, overflowing } = await fill(quota)
      return [...tracked, overflowing[0]].map(({ count }) => count)
    })
    for (const counts of others) deepStrictEqual(counts, first)
  }),
  check('each quota has sweeps of its own', largeCap, ['quota', 'inspect'], async ({ store, clock }) => {
    const quotas = quotasOf(store, 'inspect')
    await inTurn(quotas, async (quota) => {
      await visit(quota, 0)
      clock.advance(30_000)
    })
    const sweeps = await inTurn(quotas, async (quota) => {
      await visit(quota, 0)
      return (await quota.inspect()).sweeps > 0
    })
    deepStrictEqual(sweeps, [true, true, false])
  }),
  check('forget removes the counter of one quota only', largeCap, ['quota', 'forget'], async ({ store }) => {
    const quotas = quotasOf(store, 'forget')
    const counts = () => inTurn(quotas, async (quota) => (await quota.acquire(caller(1), unlimited)).count)
    await counts()
    await quotas[1]?.forget(caller(1))
    deepStrictEqual(await counts(), [2, 1, 2])
  }),
  check('clearCounters removes the counters of each quota', largeCap, ['quota', 'clearCounters'], async ({ store }) => {
    const visits = () => inTurn(quotasOf(store), (quota) => visit(quota, 0))
    await visits()
    await store.clearCounters()
    for (const { count } of (await visits()).flat()) strictEqual(count, 1)
  }),
  check('each quota counts the requests in flight of a caller separately', largeCap, ['quota', 'enter'], async ({ store }) => {
    const enter = (limit: number) => inTurn(quotasOf(store, 'enter'), (quota) => quota.enter(caller(1), limit))
    const entries = await enter(1)
    await entries[1]?.leave?.()
    deepStrictEqual([...entries, ...await enter(0)].map(({ count }) => count), [1, 1, 1, 1, 0, 1])
    for (const index of [0, 2]) await entries[index]?.leave?.()
  })
]

/** Returns the default quota and two named quotas of a store. All must have the same functions. */
function quotasOf<Needed extends keyof QuotaStore = 'acquire'> (store: StoreWith<'quota'>, ...needed: readonly Needed[]): StoreWith<Needed>[] {
  return [store, store.quota('chat', 60_000), store.quota('chat-2', 3_600_000)].map((quota) => {
    ok(hasAll(quota, needed), `a store that quota returns has no function ${needed.join(' or ')}`)
    return quota
  })
}
