import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { Acquisition, QuotaCount } from '../store/store.js'
import {
  admitted, assertResult, burst, caller, callersFrom, check, checkAtCap, everyShard, inFlight, inTurn, minute, rejected, type Subject
} from './checks.js'

/** Checks of `peek`, `list` and `forget`. */
export const readChecks = [
  checkAtCap('peek does not update the time of the last request', async (subject) => {
    const { tracked } = await subject.fill()
    subject.clock.advance(subject.retention - 1)
    await inTurn(callersFrom(0), (number) => subject.peek(number))
    subject.clock.advance(1)
    strictEqual(await subject.trackedOf(everyShard), tracked.length)
  }),
  checkAtCap('peek returns the overflow counter for a caller that would be counted on it, until its window ends', async (subject) => {
    const { clock, window } = subject
    const { tracked, overflowing: [{ number: known }] } = await subject.fill()
    for (const number of [known, 2 * everyShard]) strictEqual((await peekAndAcquire(subject, number)).peeked?.overflow, true)
    for (const { number } of tracked) strictEqual((await peekAndAcquire(subject, number)).peeked?.overflow, false)
    clock.advance(window - 1)
    strictEqual((await subject.peek(known))?.windowRemaining, 1)
    clock.advance(1)
    strictEqual(await subject.peek(known), null)
  }),
  checkAtCap('peek returns null if a due sweep would make room for the caller', async (subject) => {
    // In the shard of caller 0, the second gap ends with a sweep, and the third with a new window of the overflow counter. After the last
    // one, caller 0 is due for removal by a sweep that is just due, and that window is still open.
    await subject.acquire(0)
    const visits = await inTurn([1, subject.window - 1, 1], (gap) => {
      subject.clock.advance(gap)
      return subject.visit(1)
    })
    subject.clock.advance(minute - 1)
    const others = visits.slice(2).flat().filter(({ acquisition }) => acquisition.overflow)
    const predictions = await inTurn(others, ({ number }) => peekAndAcquire(subject, number))
    ok(predictions.some(({ peeked, acquired }) => peeked === null && !acquired.overflow), 'no caller got the place of a removed one')
  }),
  check('peek, list and forget create no counter, run no sweep and do not start the interval between sweeps', async (subject) => {
    const calls: ((quota: Subject, number: number) => unknown)[] = [
      (quota, number) => quota.peek(number), (quota) => quota.list(), (quota, number) => quota.forget(number)
    ]
    for (const [index, call] of calls.entries()) {
      const quota = subject.quota(`chat-${index}.requests.day`, subject.window)
      await inTurn(callersFrom(0), (number) => call(quota, number))
      quota.clock.advance(minute)
      await quota.visit(everyShard)
      quota.clock.advance(subject.retention)
      await inTurn(callersFrom(0), (number) => call(quota, number))
      deepStrictEqual(await quota.inspect(), { trackedCallers: everyShard, sweeps: 0 })
    }
  }),
  checkAtCap('list returns each caller whose own counter has an open window, and no other', async (subject) => {
    const { clock, window } = subject
    strictEqual((await subject.list()).size, 0)
    const { tracked } = await subject.fill()
    deepStrictEqual([...(await subject.list()).keys()].sort(), tracked.map(({ number }) => caller(number)).sort())
    clock.advance(window - 1)
    const [{ number: kept }, ...others] = tracked
    await subject.acquire(kept)
    deepStrictEqual((await subject.list()).get(caller(kept)), { count: 2, windowRemaining: 1 })
    for (const { number } of others) await subject.forget(number)
    deepStrictEqual(await subject.list(), new Map([[caller(kept), { count: 2, windowRemaining: 1 }]]))
    clock.advance(1)
    strictEqual((await subject.list()).size, 0)
  }),
  check('list returns every caller, on as many pages as it needs', async (subject) => {
    for (let first = 0; first < 10 * everyShard; first += everyShard) await burst((index) => subject.acquire(first + index))
    strictEqual((await subject.list()).size, 10 * everyShard)
  }),
  check('forget removes the caller\'s counter and no other, so that its next request opens a new window', async (subject) => {
    for (const number of [1, 2, 1, 2, 1, 2]) await subject.acquire(number, 2)
    subject.clock.advance(1_000)
    await subject.forget(1)
    assertResult(await subject.acquire(1, 2), admitted(1, subject.window))
    assertResult(await subject.acquire(2, 2), rejected(2, subject.window - 1_000))
  }),
  checkAtCap('forget makes room for one other caller if the caller has a counter, and otherwise changes nothing', async (subject) => {
    const { tracked: [{ number }], overflowing } = await subject.fill()
    const [{ number: first }] = overflowing
    const count = await subject.countOf(first)
    for (const { number } of overflowing) await subject.forget(number)
    strictEqual(await subject.countOf(first), count)
    strictEqual(await subject.trackedOf(everyShard), 0)
    for (let time = 0; time < 2; time++) await subject.forget(number)
    strictEqual(await subject.trackedOf(2 * everyShard), 1)
    subject.clock.advance(subject.retention)
    await subject.visit(3 * everyShard)
    for (const number of callersFrom(0)) await subject.forget(number)
    strictEqual(await subject.trackedOf(4 * everyShard), 0)
  })
]

export const placeReadCheck = check('peek and list return the number of requests in flight, and forget keeps them', async (subject) => {
  const streams = subject.quota('streams.in-flight', inFlight)
  const assertPlaces = async (count: number): Promise<void> => {
    assertResult(await streams.peek(1), { count, windowRemaining: null, overflow: false })
    deepStrictEqual(await streams.list(), new Map(count === 0 ? [] : [[caller(1), { count, windowRemaining: null }]]))
  }
  await assertPlaces(0)
  const acquisitions = await inTurn([1, 1], (number) => streams.acquire(number))
  await assertPlaces(2)
  await streams.forget(1)
  await assertPlaces(2)
  for (const acquisition of acquisitions) await streams.store.release(acquisition, 1)
  await assertPlaces(0)
})

/** Calls `peek` for a caller, checks that its next request has the corresponding result, and returns both. */
async function peekAndAcquire (subject: Subject, number: number): Promise<{ peeked: QuotaCount | null, acquired: Acquisition }> {
  const peeked = await subject.peek(number)
  const acquired = await subject.acquire(number)
  const { count = 0, windowRemaining = subject.window, overflow = acquired.overflow } = peeked ?? {}
  assertResult(acquired, { ...admitted(count + 1, windowRemaining), overflow })
  return { peeked, acquired }
}
