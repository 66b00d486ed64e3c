import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { Acquisition, QuotaCount } from '../store/store.js'
import { admitted, assertResult, caller, callersFrom, check, everyShard, inTurn, largeCap, minute, rejected, smallCap, type Subject } from './checks.js'

/** Checks of `peek`, `list` and `forget`. */
export const readChecks = [
  check('peek returns the count and the remaining time of the caller\'s own counter, and counts nothing', largeCap, async (subject) => {
    const { clock, window } = subject
    await subject.acquire(1, 5)
    clock.advance(1_000)
    for (const cost of [3, 1]) await subject.acquire(1, 5, cost)
    await subject.acquire(2, 5, 0)
    for (let time = 0; time < 2; time++) {
      assertPeeked(await subject.peek(1), { count: 5, windowRemaining: window - 1_000, overflow: false })
      assertPeeked(await subject.peek(2), { count: 0, windowRemaining: window, overflow: false })
    }
  }),
  check('peek returns null for a caller without a counter and after its window, and opens no window', largeCap, async (subject) => {
    const { clock, window } = subject
    for (let time = 0; time < 2; time++) {
      strictEqual(await subject.peek(1), null)
      clock.advance(1_000)
      assertResult(await subject.acquire(1, 1), admitted(1, window))
      clock.advance(window - 1)
      assertPeeked(await subject.peek(1), { count: 1, windowRemaining: 1, overflow: false })
      clock.advance(1)
    }
  }),
  check('peek does not update the time of the last request', smallCap, async (subject) => {
    const { tracked } = await subject.fill()
    subject.clock.advance(subject.retention - 1)
    await inTurn(callersFrom(0), (number) => subject.peek(number))
    subject.clock.advance(1)
    strictEqual(await subject.trackedOf(everyShard), tracked.length)
  }),
  check('peek returns the overflow counter for each caller that would be counted on it, until its window ends', smallCap, async (subject) => {
    const { clock, window } = subject
    const { tracked, overflowing: [{ number: known }] } = await subject.fill()
    for (const number of [known, 2 * everyShard]) strictEqual((await peekAndAcquire(subject, number)).peeked?.overflow, true)
    for (const { number } of tracked) strictEqual((await peekAndAcquire(subject, number)).peeked?.overflow, false)
    clock.advance(window - 1)
    strictEqual((await subject.peek(known))?.windowRemaining, 1)
    clock.advance(1)
    strictEqual(await subject.peek(known), null)
  }),
  check('peek returns null if a due sweep would make room for the caller', smallCap, async (subject) => {
    // In the shard of caller 0, the second gap ends with a sweep, and the third with a new window of the overflow counter. After the last one,
    // caller 0 is due for removal by a sweep that is just due, and that window is still open.
    await subject.acquire(0)
    const visits = await inTurn([1, subject.window - 1, 1], (gap) => {
      subject.clock.advance(gap)
      return subject.visit(1)
    })
    subject.clock.advance(minute - 1)
    const others = visits.slice(2).flat().filter(({ acquisition }) => acquisition.overflow)
    const predictions = await inTurn(others, ({ number }) => peekAndAcquire(subject, number))
    ok(predictions.some(({ peeked, acquired }) => peeked === null && !acquired.overflow), 'no caller got the place of the caller that the sweep removed')
  }),
  check('peek, list and forget create no counter, run no sweep and do not start the interval between sweeps', largeCap, async (subject) => {
    const calls: ((quota: Subject, number: number) => unknown)[] = [(quota, number) => quota.peek(number), (quota) => quota.list(), (quota, number) => quota.forget(number)]
    for (const [index, call] of calls.entries()) {
      const quota = subject.quota(`chat-${index}.requests.day`, subject.window)
      await inTurn(callersFrom(0), (number) => call(quota, number))
      quota.clock.advance(minute)
      await quota.visit(everyShard)
      quota.clock.advance(subject.retention)
      await inTurn(callersFrom(0), (number) => call(quota, number))
      deepStrictEqual({ ...await quota.store.inspect(quota.counters) }, { trackedCallers: everyShard, sweeps: 0 })
    }
  }),
  check('list returns each caller whose own counter has an open window, and no other', smallCap, async (subject) => {
    const { clock, window } = subject
    strictEqual((await subject.list()).size, 0)
    const { tracked } = await subject.fill()
    deepStrictEqual([...(await subject.list()).keys()].sort(), tracked.map(({ number }) => caller(number)).sort())
    clock.advance(window - 1)
    const [kept, ...forgotten] = tracked
    await subject.acquire(kept.number)
    deepStrictEqual((await subject.list()).get(caller(kept.number)), { count: 2, windowRemaining: 1 })
    clock.advance(1)
    strictEqual((await subject.list()).size, 0)
    for (const { number } of tracked) await subject.acquire(number)
    for (const { number } of forgotten) await subject.forget(number)
    deepStrictEqual(await subject.list(), new Map([[caller(kept.number), { count: 1, windowRemaining: window }]]))
  }),
  check('list returns every caller, on as many pages as it needs', largeCap, async (subject) => {
    for (let first = 0; first < 10 * everyShard; first += everyShard) await Promise.all(callersFrom(first).map((number) => subject.acquire(number)))
    strictEqual((await subject.list()).size, 10 * everyShard)
  }),
  check('forget removes the caller\'s counter and no other, so that its next request opens a new window', largeCap, async (subject) => {
    for (const number of [1, 2, 1, 2, 1, 2]) await subject.acquire(number, 2)
    subject.clock.advance(1_000)
    await subject.forget(1)
    assertResult(await subject.acquire(1, 2), admitted(1, subject.window))
    assertResult(await subject.acquire(2, 2), rejected(2, subject.window - 1_000))
  }),
  check('forget removes at most one tracked caller', largeCap, async (subject) => {
    const trackedAfter = async (...forgotten: number[]): Promise<number> => {
      for (const number of forgotten) await subject.forget(number)
      return (await subject.store.inspect(subject.counters)).trackedCallers
    }
    await subject.visit(0)
    strictEqual(await trackedAfter(...callersFrom(everyShard)), everyShard)
    strictEqual(await trackedAfter(0, 0), everyShard - 1)
    subject.clock.advance(subject.retention)
    await subject.visit(everyShard)
    strictEqual(await trackedAfter(...callersFrom(0)), everyShard)
  }),
  check('forget makes room for one other caller if the caller has a counter, and for none if not', smallCap, async (subject) => {
    const { tracked: [{ number }], overflowing } = await subject.fill()
    for (const { number } of overflowing) await subject.forget(number)
    strictEqual(await subject.trackedOf(everyShard), 0)
    await subject.forget(number)
    strictEqual(await subject.trackedOf(2 * everyShard), 1)
  }),
  check('forget does not change the overflow counter', smallCap, async (subject) => {
    const { overflowing: [{ number }] } = await subject.fill()
    subject.clock.advance(1_000)
    const { count, windowRemaining } = await subject.acquire(number)
    await subject.forget(number)
    assertResult(await subject.acquire(number), { ...admitted(count + 1, windowRemaining), overflow: true })
  })
]

/** Calls `peek` for a caller, checks that its next request has the corresponding result, and returns both. */
async function peekAndAcquire (subject: Subject, number: number): Promise<{ peeked: QuotaCount | null, acquired: Acquisition }> {
  const peeked = await subject.peek(number)
  const acquired = await subject.acquire(number)
  const { count = 0, windowRemaining = subject.window, overflow = acquired.overflow } = peeked ?? {}
  assertResult(acquired, { ...admitted(count + 1, windowRemaining), overflow })
  return { peeked, acquired }
}

function assertPeeked (peeked: QuotaCount | null, expected: QuotaCount): void {
  ok(peeked !== null, 'peek returned null')
  assertResult(peeked, expected)
}
