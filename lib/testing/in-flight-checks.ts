import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import type { Acquisition, Demand } from '../store/store.js'
import { admitted, assertResult, burst, caller, check, inTurn, largeCap, numberAdmitted, rejected, unlimited, type Subject } from './checks.js'

/** Checks of requests in flight. Each gives back its places, because a store on a server would renew them. */
export const inFlightChecks = [
  check('takes a place if the caller has fewer requests in flight in the quota than the limit', largeCap, async (subject) => {
    const results = await inTurn([place(1, 2), place(1, 2), place(1, 2), place(1, 1), place(2, 1), place(1, 2, 'jobs'), place(1, 3), place(1)], (demand) => subject.acquireOne(demand))
    const expected = [admitted(1, null), admitted(2, null), rejected(2, null), rejected(2, null), admitted(1, null), admitted(1, null), admitted(3, null), admitted(4, null)]
    for (const [index, result] of results.entries()) assertResult(result, expected[index] ?? result)
    for (const result of results) if (result.admitted) await subject.store.release(result, 1)
    deepStrictEqual(await inTurn([place(1), place(2), place(1, 1, 'jobs')], (demand) => placesOf(subject, demand)), [0, 0, 0])
  }),
  check('release gives back one place of the caller, once, and none of other callers', largeCap, async (subject) => {
    const [first, second, third, other] = await inTurn([place(1), place(1), place(1), place(2)], (demand) => subject.acquireOne(demand))
    for (const [acquisition, left] of [[second, 2], [second, 2], [first, 1], [second, 1], [third, 0], [first, 0]] as const) {
      if (acquisition !== undefined) await subject.store.release(acquisition, 1)
      strictEqual(await placesOf(subject, place(1)), left)
    }
    strictEqual(await placesOf(subject, place(2)), 1)
    if (other !== undefined) await subject.store.release(other, 1)
  }),
  check('admits exactly as many concurrent requests in flight as the limit allows, and each release gives back one place, even if it is called twice', largeCap, async (subject) => {
    const first = await subject.acquireOne(place(1, 5))
    for (let time = 0; time < 2; time++) {
      const results = await burst(() => subject.acquireOne(place(1, 5)))
      strictEqual(numberAdmitted(results), 4)
      await Promise.all(results.flatMap((result) => result.admitted ? [1, 2].map(async () => subject.store.release(result, 1)) : []))
      strictEqual(await placesOf(subject, place(1)), 1)
    }
    await subject.store.release(first, 1)
  }),
  check('counts a request in a window and its place in one step, or neither', largeCap, async (subject) => {
    const held: Acquisition[] = []
    const acquire = async (demands: readonly Demand[]): Promise<boolean> => {
      const results = await subject.acquireAll(demands)
      const isAdmitted = numberAdmitted([results]) === 1
      if (isAdmitted) for (const [index, result] of results.entries()) if (result !== null && demands[index]?.window === null) held.push(result)
      return isAdmitted
    }
    const both = (requests: number, places: number) => [subject.demand(1, requests), place(1, places)]
    const counts = async () => [(await subject.acquire(1, unlimited, 0)).count, await placesOf(subject, place(1))]
    deepStrictEqual(await inTurn([both(2, 2), both(5, 1), both(1, 5), both(5, 2).reverse(), both(5, 2)], acquire), [true, false, false, true, false])
    deepStrictEqual(await counts(), [2, 2])
    strictEqual((await burst((index) => acquire(index % 2 === 0 ? both(9, 5) : both(9, 5).reverse()))).filter(Boolean).length, 3)
    deepStrictEqual(await counts(), [5, 5])
    strictEqual((await burst((index) => acquire(index % 2 === 0 ? both(7, 50) : both(7, 50).reverse()))).filter(Boolean).length, 2)
    deepStrictEqual(await counts(), [7, 7])
    for (const acquisition of held) await subject.store.release(acquisition, 1)
    deepStrictEqual(await counts(), [7, 0])
  }),
  check('peek and list return the number of requests in flight, and forget keeps them', largeCap, async (subject) => {
    const { store } = subject
    const streams = subject.quota(place(1).counters, 0)
    const assertPlaces = async (count: number): Promise<void> => {
      assertResult(await store.peek(place(1)) ?? rejected(-1, null), { count, windowRemaining: null, overflow: false })
      deepStrictEqual(await streams.list(), new Map(count === 0 ? [] : [[caller(1), { count, windowRemaining: null }]]))
    }
    await assertPlaces(0)
    const acquisitions = await inTurn([1, 2], () => subject.acquireOne(place(1)))
    await assertPlaces(2)
    await streams.forget(1)
    await assertPlaces(2)
    for (const acquisition of acquisitions) await store.release(acquisition, 1)
    await assertPlaces(0)
  }),
  check('clearCounters gives back all places, and a later release gives back none', largeCap, async (subject) => {
    const [first, second] = await inTurn([place(1), place(1)], (demand) => subject.acquireOne(demand))
    await subject.store.clearCounters()
    if (second !== undefined) await subject.store.release(second, 1)
    const third = await subject.acquireOne(place(1))
    if (first !== undefined) await subject.store.release(first, 1)
    strictEqual(await placesOf(subject, place(1)), 1)
    await subject.store.release(third, 1)
  })
]

function place (number: number, limit = unlimited, name = 'streams'): Demand {
  return { counters: `${name}.in-flight`, callerKey: caller(number), limit, cost: 1, window: null, end: null }
}

/** Takes a place and gives it back, to return how many there are. */
async function placesOf (subject: Subject, demand: Demand): Promise<number> {
  const acquisition = await subject.acquireOne({ ...demand, limit: unlimited })
  await subject.store.release(acquisition, 1)
  return acquisition.count - 1
}
