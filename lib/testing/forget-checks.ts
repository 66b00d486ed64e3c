import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import { sweepInterval } from '../store/counter.js'
import { windowLength } from '../store/counter.js'
import { caller, everyShard, forgetEach, overflow, visit, type Checks } from './visits.js'

/** Checks for `forget`. */
export const forgetChecks: Checks = {
  async 'forget removes the caller\'s counter, so that its next request opens a new window' ({ store, clock }) {
    for (let request = 0; request < 3; request++) await store.acquire(caller(1), 2)
    clock.advance(1_000)
    await store.forget(caller(1))
    strictEqual(await store.peek(caller(1)), null)
    deepStrictEqual(await store.inspect(), { trackedCallers: 0, sweeps: 0 })
    deepStrictEqual(await store.acquire(caller(1), 2), { admitted: true, count: 1, windowRemaining: windowLength, overflow: false })
  },

  async 'forget removes no other caller\'s counter' ({ store }) {
    await visit(store, 0)
    await store.forget(caller(1))
    for (const { caller: visited, admitted } of await visit(store, 0)) strictEqual(admitted, visited === caller(1))
  },

  async 'forget does nothing if the caller has no counter' ({ store }) {
    await visit(store, 0)
    await forgetEach(store, everyShard)
    strictEqual((await store.inspect()).trackedCallers, everyShard)
    await store.forget(caller(0))
    await store.forget(caller(0))
    strictEqual((await store.inspect()).trackedCallers, everyShard - 1)
  },

  async 'forget does nothing if a sweep has removed the counter' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(120_000)
    await visit(store, everyShard)
    await forgetEach(store, 0)
    strictEqual((await store.inspect()).trackedCallers, everyShard)
  },

  async 'forget leaves nothing behind that makes a sweep remove a later counter' ({ store, clock }) {
    await visit(store, 0)
    await store.forget(caller(1))
    clock.advance(sweepInterval - 1)
    await store.acquire(caller(1), 1)
    clock.advance(120_000 - sweepInterval + 1)
    await visit(store, everyShard)
    strictEqual((await store.inspect()).trackedCallers, everyShard + 1)
  },

  async 'forget runs no sweep' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(120_000)
    await forgetEach(store, everyShard)
    deepStrictEqual(await store.inspect(), { trackedCallers: everyShard, sweeps: 0 })
  },

  async 'forget does not start the interval between sweeps' ({ store, clock }) {
    await forgetEach(store, 0)
    clock.advance(sweepInterval)
    await visit(store, 0)
    strictEqual((await store.inspect()).sweeps, 0)
  }
}

/** Checks for `forget` when the caller cap is reached, for stores with the small cap. */
export const forgetOverflowChecks: Checks = {
  async 'forget frees the caller\'s place for one other caller' ({ store }) {
    const tracked = (await visit(store, 0, 1_000)).filter((visited) => !visited.overflow)
    for (const { caller } of tracked.slice(0, 1)) await store.forget(caller)
    strictEqual((await store.inspect()).trackedCallers, tracked.length - 1)
    const later = (await visit(store, everyShard, 1_000)).filter((visited) => !visited.overflow)
    deepStrictEqual(later.map(({ count, windowRemaining }) => ({ count, windowRemaining })), [{ count: 1, windowRemaining: windowLength }])
    strictEqual((await store.inspect()).trackedCallers, tracked.length)
  },

  async 'forget frees no place if the caller has no counter' ({ store }) {
    const overflowing = await overflow(store, 1_000)
    for (const { caller } of overflowing) await store.forget(caller)
    for (const visited of await visit(store, everyShard, 1_000)) strictEqual(visited.overflow, true)
    strictEqual((await store.inspect()).trackedCallers, everyShard - overflowing.length)
  },

  async 'forget does not change the overflow counter' ({ store, clock }) {
    const overflowing = await overflow(store, 1_000)
    clock.advance(1_000)
    for (const { caller } of overflowing.slice(0, 1)) {
      const { count, windowRemaining } = await store.acquire(caller, 1_000)
      await store.forget(caller)
      deepStrictEqual(await store.peek(caller), { count, windowRemaining, overflow: true })
      deepStrictEqual(await store.acquire(caller, 1_000), { admitted: true, count: count + 1, windowRemaining, overflow: true })
    }
  }
}
