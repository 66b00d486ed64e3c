import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { Acquisition, QuotaCount, QuotaStoreState } from '../store/store.js'
import { admitted, caller, callersFrom, check, everyShard, fill, inTurn, largeCap, rejected, smallCap, trackedOf, unlimited, visit, type StoreWith } from './checks.js'
import type { VirtualClock } from './virtual-clock.js'

const noSweep = { trackedCallers: everyShard, sweeps: 0 }

/** Checks of `peek` and `forget`. */
export const peekAndForgetChecks = [
  check('peek returns the count and the remaining time of the caller\'s own counter, and counts nothing', largeCap, ['peek'], async ({ store, clock, window }) => {
    await store.acquire(caller(1), 5)
    clock.advance(1_000)
    for (const cost of [3, 2, 1]) await store.acquire(caller(1), 5, cost)
    await store.acquire(caller(2), 5, 0)
    const first = { count: 6, windowRemaining: window - 1_000, overflow: false }
    const second = { count: 0, windowRemaining: window, overflow: false }
    deepStrictEqual(await inTurn([1, 2, 1, 2], (number) => store.peek(caller(number))), [first, second, first, second])
  }),
  check('peek returns null for a caller without a counter and after its window, and opens no window', largeCap, ['peek'], async ({ store, clock, window }) => {
    for (let time = 0; time < 2; time++) {
      strictEqual(await store.peek(caller(1)), null)
      clock.advance(1_000)
      deepStrictEqual(await store.acquire(caller(1), 1), admitted(1, window))
      clock.advance(window - 1)
      deepStrictEqual(await store.peek(caller(1)), { count: 1, windowRemaining: 1, overflow: false })
      clock.advance(1)
    }
  }),
  check('peek creates no counter, runs no sweep and does not start the interval between sweeps', largeCap, ['peek', 'inspect'], async ({ store, clock, retention }) => {
    deepStrictEqual(await statesAround(store, clock, retention, (caller) => store.peek(caller)), [noSweep, noSweep])
  }),
  check('peek does not update the time of the last request', smallCap, ['peek'], async ({ store, clock, retention }) => {
    const { tracked } = await fill(store)
    clock.advance(retention - 1)
    await inTurn(callersFrom(0), (caller) => store.peek(caller))
    clock.advance(1)
    strictEqual(await trackedOf(store, everyShard), tracked.length)
  }),
  check('peek returns the overflow counter for each caller that would be counted on it, until its window ends', smallCap, ['peek'], async ({ store, clock, window }) => {
    const { tracked, overflowing: [{ caller: known }] } = await fill(store)
    strictEqual((await peekAndAcquire(store, known, window)).peeked?.overflow, true)
    strictEqual((await peekAndAcquire(store, caller(2 * everyShard), window)).peeked?.overflow, true)
    for (const { caller } of tracked) strictEqual((await peekAndAcquire(store, caller, window)).peeked?.overflow, false)
    clock.advance(window - 1)
    strictEqual((await store.peek(known))?.windowRemaining, 1)
    clock.advance(1)
    strictEqual(await store.peek(known), null)
  }),
  check('peek returns null if a due sweep would make room for the caller', smallCap, ['peek'], async ({ store, clock, window }) => {
    // In the shard of caller 0, the second gap ends with a sweep, and the third with a new window of the overflow counter. After the last one,
    // caller 0 is due for removal by a sweep that is just due, and that window is still open.
    await store.acquire(caller(0), unlimited)
    const visits = await inTurn([1, window - 1, 1], (gap) => {
      clock.advance(gap)
      return visit(store, 1)
    })
    clock.advance(59_999)
    const others = visits.slice(2).flat().filter(({ overflow }) => overflow)
    const predictions = await inTurn(others, ({ caller }) => peekAndAcquire(store, caller, window))
    ok(predictions.some(({ peeked, acquired }) => peeked === null && !acquired.overflow), 'no caller got the place of the caller that the sweep removed')
  }),
  check('forget removes the caller\'s counter and no other, so that its next request opens a new window', largeCap, ['forget'], async ({ store, clock, window }) => {
    for (const number of [1, 2, 1, 2, 1, 2]) await store.acquire(caller(number), 2)
    clock.advance(1_000)
    await store.forget(caller(1))
    deepStrictEqual(await store.acquire(caller(1), 2), admitted(1, window))
    deepStrictEqual(await store.acquire(caller(2), 2), rejected(2, window - 1_000))
  }),
  check('forget removes at most one tracked caller', largeCap, ['forget', 'inspect'], async ({ store, clock, retention }) => {
    const trackedAfter = async (...forgotten: string[]): Promise<number> => {
      for (const caller of forgotten) await store.forget(caller)
      return (await store.inspect()).trackedCallers
    }
    await visit(store, 0)
    strictEqual(await trackedAfter(...callersFrom(everyShard)), everyShard)
    strictEqual(await trackedAfter(caller(0), caller(0)), everyShard - 1)
    clock.advance(retention)
    await visit(store, everyShard)
    strictEqual(await trackedAfter(...callersFrom(0)), everyShard)
  }),
  check('forget leaves nothing behind that makes a sweep remove a later counter', largeCap, ['forget', 'inspect'], async ({ store, clock, retention }) => {
    await visit(store, 0)
    await store.forget(caller(1))
    clock.advance(59_999)
    await store.acquire(caller(1), 1)
    clock.advance(retention - 59_999)
    await visit(store, everyShard)
    strictEqual((await store.inspect()).trackedCallers, everyShard + 1)
  }),
  check('forget runs no sweep and does not start the interval between sweeps', largeCap, ['forget', 'inspect'], async ({ store, clock, retention }) => {
    deepStrictEqual(await statesAround(store, clock, retention, (caller) => store.forget(caller)), [noSweep, noSweep])
  }),
  check('forget makes room for one other caller if the caller has a counter, and for none if not', smallCap, ['forget'], async ({ store }) => {
    const { tracked, overflowing } = await fill(store)
    for (const { caller } of overflowing) await store.forget(caller)
    strictEqual(await trackedOf(store, everyShard), 0)
    for (const { caller } of tracked.slice(0, 1)) await store.forget(caller)
    strictEqual(await trackedOf(store, 2 * everyShard), 1)
  }),
  check('forget does not change the overflow counter', smallCap, ['forget'], async ({ store, clock }) => {
    const { overflowing: [{ caller }] } = await fill(store)
    clock.advance(1_000)
    const { count, ...others } = await store.acquire(caller, unlimited)
    await store.forget(caller)
    deepStrictEqual(await store.acquire(caller, unlimited), { ...others, count: count + 1 })
  })
]

/** Makes calls for callers before their first requests and when their counters are due for removal. Returns the state before and after the second calls. */
async function statesAround (store: StoreWith<'inspect'>, clock: VirtualClock, retention: number, call: (caller: string) => unknown): Promise<QuotaStoreState[]> {
  await inTurn(callersFrom(0), call)
  clock.advance(60_000)
  await visit(store, everyShard)
  const before = await store.inspect()
  clock.advance(retention)
  await inTurn(callersFrom(0), call)
  return [before, await store.inspect()]
}

/** Calls `peek` for a caller, checks that its next request has the corresponding result, and returns both. */
async function peekAndAcquire (store: StoreWith<'peek'>, caller: string, window: number): Promise<{ peeked: QuotaCount | null, acquired: Acquisition }> {
  const peeked = await store.peek(caller)
  const acquired = await store.acquire(caller, unlimited)
  deepStrictEqual(acquired, { admitted: true, windowRemaining: window, overflow: acquired.overflow, ...peeked, count: (peeked?.count ?? 0) + 1 })
  return { peeked, acquired }
}
