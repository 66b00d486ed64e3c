import { deepStrictEqual, notStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { QuotaStore } from '../store/store.js'
import { caller, checks, fill, hasAll, largeCap, smallCap, unlimited, visit, type StoreWith } from './checks.js'

/** Checks of `quota`: the default quota and the named quotas of a store share nothing. */
export const quotaChecks = [
  ...checks(largeCap, ['quota'], {
    async 'quota returns the same store for the same name, and another one for another name' ({ store }) {
      const again = quotasOf(store)
      for (const [index, quota] of quotasOf(store).entries()) strictEqual(quota, again[index])
      notStrictEqual(again[1], again[2])
    }
  }),

  ...checks(smallCap, ['quota'], {
    async 'each quota has counters, a caller cap and an overflow counter of its own' ({ store }) {
      const { tracked, overflowing } = await fill(store)
      for (const quota of quotasOf(store).slice(1)) {
        const filled = await fill(quota)
        deepStrictEqual(filled.tracked.map(({ count }) => count), tracked.map(({ count }) => count))
        strictEqual(filled.overflowing[0].count, overflowing[0].count)
      }
    }
  }),

  ...checks(largeCap, ['quota', 'inspect'], {
    async 'each quota has sweeps of its own' ({ store, clock }) {
      const sweeps = []
      for (const quota of quotasOf(store, 'inspect')) {
        await visit(quota, 0)
        clock.advance(30_000)
      }
      for (const quota of quotasOf(store, 'inspect')) {
        await visit(quota, 0)
        sweeps.push((await quota.inspect()).sweeps > 0)
      }
      deepStrictEqual(sweeps, [true, true, false])
    }
  }),

  ...checks(largeCap, ['quota', 'forget'], {
    async 'forget removes the counter of one quota only' ({ store }) {
      const quotas = quotasOf(store, 'forget')
      for (const quota of quotas) await quota.acquire(caller(1), unlimited)
      await quotas[1]?.forget(caller(1))
      const counts = []
      for (const quota of quotas) counts.push((await quota.acquire(caller(1), unlimited)).count)
      deepStrictEqual(counts, [2, 1, 2])
    }
  }),

  ...checks(largeCap, ['quota', 'clearCounters'], {
    async 'clearCounters removes the counters of each quota' ({ store }) {
      const quotas = quotasOf(store)
      for (const quota of quotas) await visit(quota, 0)
      await store.clearCounters()
      for (const quota of quotas) for (const { count } of await visit(quota, 0)) strictEqual(count, 1)
    }
  }),

  ...checks(largeCap, ['quota', 'enter'], {
    async 'each quota counts the requests in flight of a caller separately' ({ store }) {
      const entries = []
      for (const quota of quotasOf(store, 'enter')) entries.push(await quota.enter(caller(1), 1))
      deepStrictEqual(entries.map(({ count }) => count), [1, 1, 1])
      await entries[1]?.leave?.()
      const counts = []
      for (const quota of quotasOf(store, 'enter')) counts.push((await quota.enter(caller(1), 0)).count)
      deepStrictEqual(counts, [1, 0, 1])
      for (const index of [0, 2]) await entries[index]?.leave?.()
    }
  })
]

/** Returns the default quota and two named quotas of a store. All must have the same functions. */
function quotasOf<Needed extends keyof QuotaStore = 'acquire'> (store: StoreWith<'quota'>, ...needed: readonly Needed[]): StoreWith<Needed>[] {
  return [store, store.quota('chat', 60_000), store.quota('chat-2', 3_600_000)].map((quota) => {
    ok(hasAll(quota, ...needed), `a store that quota returns has no function ${needed.join(' or ')}`)
    return quota
  })
}
