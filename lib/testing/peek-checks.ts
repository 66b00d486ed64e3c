import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { Acquisition, QuotaCount } from '../store/store.js'
import { caller, checks, everyShard, fill, forEachCaller, largeCap, smallCap, unlimited, visit, type StoreWith, type Visit } from './checks.js'

/** Checks of `peek`. */
export const peekChecks = [
  ...checks(largeCap, ['peek'], {
    async 'peek returns the count and the remaining time of the caller\'s own counter, and counts nothing' ({ store, clock, window }) {
      await store.acquire(caller(1), 5)
      clock.advance(1_000)
      for (const cost of [3, 2, 1]) await store.acquire(caller(1), 5, cost)
      await store.acquire(caller(2), 5, 0)
      for (let time = 0; time < 2; time++) {
        deepStrictEqual(await store.peek(caller(1)), { count: 6, windowRemaining: window - 1_000, overflow: false })
        deepStrictEqual(await store.peek(caller(2)), { count: 0, windowRemaining: window, overflow: false })
      }
    },

    async 'peek returns null for a caller without a counter and after its window, and opens no window' ({ store, clock, window }) {
      for (let time = 0; time < 2; time++) {
        strictEqual(await store.peek(caller(1)), null)
        clock.advance(1_000)
        deepStrictEqual(await store.acquire(caller(1), 1), { admitted: true, count: 1, windowRemaining: window, overflow: false })
        clock.advance(window - 1)
        deepStrictEqual(await store.peek(caller(1)), { count: 1, windowRemaining: 1, overflow: false })
        clock.advance(1)
      }
    }
  }),

  ...checks(largeCap, ['peek', 'inspect'], {
    async 'peek creates no counter, runs no sweep and does not start the interval between sweeps' ({ store, clock, retention }) {
      const peek = () => forEachCaller(0, (caller) => store.peek(caller))
      await peek()
      clock.advance(60_000)
      await visit(store, everyShard)
      deepStrictEqual(await store.inspect(), { trackedCallers: everyShard, sweeps: 0 })
      clock.advance(retention)
      await peek()
      deepStrictEqual(await store.inspect(), { trackedCallers: everyShard, sweeps: 0 })
    }
  }),

  ...checks(smallCap, ['peek'], {
    async 'peek does not update the time of the last request' ({ store, clock, retention }) {
      const { tracked } = await fill(store)
      clock.advance(retention - 1)
      await forEachCaller(0, (caller) => store.peek(caller))
      clock.advance(1)
      strictEqual((await visit(store, everyShard)).filter(({ overflow }) => !overflow).length, tracked.length)
    },

    async 'peek returns the overflow counter for each caller that would be counted on it, until its window ends' ({ store, clock, window }) {
      const { tracked, overflowing: [{ caller: known }] } = await fill(store)
      strictEqual((await peekAndAcquire(store, known, window)).peeked?.overflow, true)
      strictEqual((await peekAndAcquire(store, caller(2 * everyShard), window)).peeked?.overflow, true)
      for (const { caller } of tracked) strictEqual((await peekAndAcquire(store, caller, window)).peeked?.overflow, false)
      clock.advance(window - 1)
      strictEqual((await store.peek(known))?.windowRemaining, 1)
      clock.advance(1)
      strictEqual(await store.peek(known), null)
    },

    async 'peek returns null if a due sweep would make room for the caller' ({ store, clock, window }) {
      // In the shard of caller 0, the second gap ends with a sweep, and the third with a new window of the overflow counter. After the last one,
      // caller 0 is due for removal by a sweep that is just due, and that window is still open.
      await store.acquire(caller(0), unlimited)
      let others: Visit[] = []
      for (const gap of [1, window - 1, 1]) {
        clock.advance(gap)
        others = (await visit(store, 1)).filter(({ overflow }) => overflow)
      }
      clock.advance(59_999)
      const predictions = []
      for (const { caller } of others) predictions.push(await peekAndAcquire(store, caller, window))
      ok(predictions.some(({ peeked, acquired }) => peeked === null && !acquired.overflow), 'no caller got the place of the caller that the sweep removed')
    }
  })
]

/** Calls `peek` for a caller, checks that its next request has the corresponding result, and returns both. */
async function peekAndAcquire (store: StoreWith<'peek'>, caller: string, window: number): Promise<{ peeked: QuotaCount | null, acquired: Acquisition }> {
  const peeked = await store.peek(caller)
  const acquired = await store.acquire(caller, unlimited)
  const expected = peeked === null
    ? { admitted: true, count: 1, windowRemaining: window, overflow: acquired.overflow }
    : { admitted: true, ...peeked, count: peeked.count + 1 }
  deepStrictEqual(acquired, expected)
  return { peeked, acquired }
}
