import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import { caller, checks, everyShard, fill, forEachCaller, largeCap, smallCap, unlimited, visit } from './checks.js'

/** Checks of `forget`. */
export const forgetChecks = [
  ...checks(largeCap, ['forget'], {
    async 'forget removes the caller\'s counter and no other, so that its next request opens a new window' ({ store, clock, window }) {
      for (const number of [1, 2]) for (let request = 0; request < 3; request++) await store.acquire(caller(number), 2)
      clock.advance(1_000)
      await store.forget(caller(1))
      deepStrictEqual(await store.acquire(caller(1), 2), { admitted: true, count: 1, windowRemaining: window, overflow: false })
      deepStrictEqual(await store.acquire(caller(2), 2), { admitted: false, count: 2, windowRemaining: window - 1_000, overflow: false })
    }
  }),

  ...checks(largeCap, ['forget', 'inspect'], {
    async 'forget removes at most one tracked caller' ({ store, clock, retention }) {
      await visit(store, 0)
      await forEachCaller(everyShard, (caller) => store.forget(caller))
      strictEqual((await store.inspect()).trackedCallers, everyShard)
      for (let time = 0; time < 2; time++) await store.forget(caller(0))
      strictEqual((await store.inspect()).trackedCallers, everyShard - 1)
      clock.advance(retention)
      await visit(store, everyShard)
      await forEachCaller(0, (caller) => store.forget(caller))
      strictEqual((await store.inspect()).trackedCallers, everyShard)
    },

    async 'forget leaves nothing behind that makes a sweep remove a later counter' ({ store, clock, retention }) {
      await visit(store, 0)
      await store.forget(caller(1))
      clock.advance(59_999)
      await store.acquire(caller(1), 1)
      clock.advance(retention - 59_999)
      await visit(store, everyShard)
      strictEqual((await store.inspect()).trackedCallers, everyShard + 1)
    },

    async 'forget runs no sweep and does not start the interval between sweeps' ({ store, clock, retention }) {
      const forget = () => forEachCaller(0, (caller) => store.forget(caller))
      await forget()
      clock.advance(60_000)
      await visit(store, everyShard)
      deepStrictEqual(await store.inspect(), { trackedCallers: everyShard, sweeps: 0 })
      clock.advance(retention)
      await forget()
      deepStrictEqual(await store.inspect(), { trackedCallers: everyShard, sweeps: 0 })
    }
  }),

  ...checks(smallCap, ['forget'], {
    async 'forget makes room for one other caller if the caller has a counter, and for none if not' ({ store }) {
      const { tracked, overflowing } = await fill(store)
      for (const { caller } of overflowing) await store.forget(caller)
      for (const { overflow } of await visit(store, everyShard)) strictEqual(overflow, true)
      for (const { caller } of tracked.slice(0, 1)) await store.forget(caller)
      strictEqual((await visit(store, 2 * everyShard)).filter(({ overflow }) => !overflow).length, 1)
    },

    async 'forget does not change the overflow counter' ({ store, clock }) {
      const { overflowing: [{ caller }] } = await fill(store)
      clock.advance(1_000)
      const { count, ...others } = await store.acquire(caller, unlimited)
      await store.forget(caller)
      deepStrictEqual(await store.acquire(caller, unlimited), { ...others, count: count + 1 })
    }
  })
]
