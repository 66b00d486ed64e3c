import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { sweepInterval } from '../store/counter.js'
import type { Acquisition, QuotaCount, QuotaStore } from '../store/store.js'
import { windowLength } from '../store/counter.js'
import { caller, everyShard, overflow, peekAtEach, visit, type Checks } from './visits.js'

/** Checks for `peek`. */
export const peekChecks: Checks = {
  async 'peek returns null for a caller without a counter, and creates none' ({ store, clock }) {
    for (const peeked of await peekAtEach(store, 0)) strictEqual(peeked, null)
    deepStrictEqual(await store.inspect(), { trackedCallers: 0, sweeps: 0 })
    clock.advance(1_000)
    deepStrictEqual(await store.acquire(caller(1), 1), { admitted: true, count: 1, windowRemaining: windowLength, overflow: false })
  },

  async 'peek returns the count and the time left of the caller\'s own counter' ({ store, clock }) {
    await store.acquire(caller(1), 5)
    clock.advance(1_000)
    await store.acquire(caller(1), 5)
    await store.acquire(caller(2), 5)
    deepStrictEqual(await store.peek(caller(1)), { count: 2, windowRemaining: windowLength - 1_000, overflow: false })
    deepStrictEqual(await store.peek(caller(2)), { count: 1, windowRemaining: windowLength, overflow: false })
  },

  async 'peek returns the count of a caller at its limit, without the rejected requests' ({ store }) {
    for (let request = 0; request < 4; request++) await store.acquire(caller(1), 2)
    deepStrictEqual(await store.peek(caller(1)), { count: 2, windowRemaining: windowLength, overflow: false })
  },

  async 'peek counts nothing' ({ store }) {
    await store.acquire(caller(1), 2)
    for (let peek = 0; peek < 5; peek++) deepStrictEqual(await store.peek(caller(1)), { count: 1, windowRemaining: windowLength, overflow: false })
    deepStrictEqual(await store.acquire(caller(1), 2), { admitted: true, count: 2, windowRemaining: windowLength, overflow: false })
  },

  async 'peek returns null once the window is over, and opens none' ({ store, clock }) {
    await store.acquire(caller(1), 1)
    clock.advance(windowLength - 1)
    deepStrictEqual(await store.peek(caller(1)), { count: 1, windowRemaining: 1, overflow: false })
    clock.advance(1)
    strictEqual(await store.peek(caller(1)), null)
    clock.advance(1_000)
    deepStrictEqual(await store.acquire(caller(1), 1), { admitted: true, count: 1, windowRemaining: windowLength, overflow: false })
  },

  async 'peek leaves the time of the last request as it is' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(120_000 - 1)
    await peekAtEach(store, 0)
    clock.advance(1)
    await visit(store, everyShard)
    strictEqual((await store.inspect()).trackedCallers, everyShard)
  },

  async 'peek runs no sweep' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(120_000)
    await peekAtEach(store, 0)
    deepStrictEqual(await store.inspect(), { trackedCallers: everyShard, sweeps: 0 })
  },

  async 'peek does not start the interval between sweeps' ({ store, clock }) {
    await peekAtEach(store, 0)
    clock.advance(sweepInterval)
    await visit(store, 0)
    strictEqual((await store.inspect()).sweeps, 0)
  }
}

/** Checks for `peek` when the caller cap is reached, for stores with the small cap. */
export const peekOverflowChecks: Checks = {
  async 'peek returns the overflow counter for a caller that would be counted on it' ({ store }) {
    for (const { caller } of await overflow(store, 1_000)) {
      const { admitted, ...expected } = await store.acquire(caller, 1_000)
      deepStrictEqual(await store.peek(caller), expected)
    }
    const { peeked } = await peekAndAcquire(store, caller(2 * everyShard))
    strictEqual(peeked?.overflow, true)
  },

  async 'peek returns a caller\'s own counter even if the caller cap is reached' ({ store }) {
    const visits = await visit(store, 0, 1_000)
    for (const { caller } of visits.filter((visited) => !visited.overflow)) {
      deepStrictEqual(await store.peek(caller), { count: 1, windowRemaining: windowLength, overflow: false })
    }
  },

  async 'peek returns null once the overflow counter\'s window is over' ({ store, clock }) {
    const overflowing = await overflow(store, 1_000)
    clock.advance(windowLength - 1)
    for (const { caller } of overflowing) strictEqual((await store.peek(caller))?.windowRemaining, 1)
    clock.advance(1)
    for (const { caller } of overflowing) strictEqual(await store.peek(caller), null)
  },

  async 'peek returns null if a due sweep would make room for the caller' ({ store, clock }) {
    // The first caller's shard starts its sweep interval 1 ms before its overflow counter opens a window, so that a sweep is due 1 ms
    // before that window ends.
    await store.acquire(caller(0), 1_000)
    clock.advance(1)
    const overflowing = (await visit(store, 1, 1_000)).filter((visited) => visited.overflow)
    for (const gap of [sweepInterval - 1, 1]) {
      clock.advance(gap)
      for (const { caller } of overflowing) await store.acquire(caller, 1_000)
    }
    clock.advance(120_000 - sweepInterval - 1)
    const predictions = []
    for (const { caller } of overflowing) predictions.push(await peekAndAcquire(store, caller))
    ok(predictions.some(({ peeked, acquired }) => peeked === null && !acquired.overflow), 'no caller got the place of the caller that the sweep removed')
  }
}

/** Calls `peek` for a caller, checks that its next request has the corresponding result, and returns both. */
async function peekAndAcquire (store: Required<QuotaStore>, caller: string): Promise<{ peeked: QuotaCount | null, acquired: Acquisition }> {
  const peeked = await store.peek(caller)
  const acquired = await store.acquire(caller, Number.MAX_SAFE_INTEGER)
  const expected = peeked === null
    ? { admitted: true, count: 1, windowRemaining: windowLength, overflow: acquired.overflow }
    : { admitted: true, ...peeked, count: peeked.count + 1 }
  deepStrictEqual(acquired, expected)
  return { peeked, acquired }
}
