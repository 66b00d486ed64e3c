import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import type { Acquisition } from '../store/store.js'
import { burst, callersFrom, check, everyShard, inTurn, largeCap, smallCap, unlimited, type Check, type Subject } from './checks.js'

/** Checks of `release` for costs. */
export const releaseChecks = [
  check('release gives back a part of a cost, and makes room for others', largeCap, async (subject) => {
    const [first, , other] = await inTurn([[1, 6], [1, 4], [2, 6]] as const, ([number, cost]) => subject.acquire(number, 10, cost))
    strictEqual((await subject.acquire(1, 10)).admitted, false)
    await giveBack(subject, first, 0, 4)
    await giveBack(subject, other, 1)
    deepStrictEqual(await inTurn([1, 2], (number) => countOf(subject, number)), [6, 5])
    deepStrictEqual((await inTurn([5, 4, 1], (cost) => subject.acquire(1, 10, cost))).map(({ admitted }) => admitted), [false, true, false])
  }),
  check('release gives back no more than an acquisition has counted, however often it is called', largeCap, async (subject) => {
    const [first, second, free] = await inTurn([5, 7, 0], (cost) => subject.acquire(1, unlimited, cost))
    await giveBack(subject, first, 3, 3, 5)
    await giveBack(subject, free, 1)
    strictEqual(await countOf(subject, 1), 7)
    await giveBack(subject, second, unlimited, 1)
    strictEqual(await countOf(subject, 1), 0)
    await subject.acquire(1)
    await giveBack(subject, first, 5)
    strictEqual(await countOf(subject, 1), 1)
  }),
  check('release gives back in an open window until its end, and nothing after it, whether or not the next window is open', largeCap, async (subject) => {
    const early = await subject.acquire(1, unlimited, 5)
    subject.clock.advance(subject.window - 1)
    await giveBack(subject, early, 1)
    strictEqual(await countOf(subject, 1), 4)
    subject.clock.advance(1)
    await giveBack(subject, early, 1)
    await subject.acquire(1, unlimited, 8)
    await giveBack(subject, early, 3)
    strictEqual(await countOf(subject, 1), 8)
  }),
  check('release neither extends a window nor updates the time of the last request', smallCap, async (subject) => {
    const { tracked } = await subject.fill()
    subject.clock.advance(subject.window - 1)
    await giveBack(subject, tracked[0].acquisition, 1)
    subject.clock.advance(subject.retention - subject.window + 1)
    strictEqual(await subject.trackedOf(everyShard), tracked.length)
  }),
  nowhere('forget', largeCap, async (subject, number) => { await subject.forget(number) }),
  nowhere('clearCounters', largeCap, async (subject) => { await subject.store.clearCounters() }),
  nowhere('a sweep', largeCap, async (subject) => {
    subject.clock.advance(subject.retention)
    await subject.visit(everyShard)
  }),
  check('release gives back on the overflow counter, also for a caller that has a counter of its own since, which keeps its count', smallCap, async (subject) => {
    const { overflowing: [{ number, acquisition: first }], tracked } = await subject.fill()
    const count = await countOf(subject, number)
    const acquisition = await subject.acquire(number, unlimited, 5)
    await giveBack(subject, acquisition, 2)
    await giveBack(subject, first, 1)
    strictEqual(await countOf(subject, number), count + 2)
    for (const { number } of tracked) await subject.forget(number)
    await subject.acquire(number, unlimited, 2)
    await giveBack(subject, acquisition, 3)
    strictEqual(await countOf(subject, number), 2)
  }),
  check('release gives back nothing on the overflow counter for a caller that had a counter of its own', smallCap, async (subject) => {
    const { tracked: [{ number, acquisition }] } = await subject.fill()
    await subject.forget(number)
    await subject.visit(everyShard)
    const { count, overflow } = await subject.acquire(number, unlimited, 5)
    strictEqual(overflow, true)
    await giveBack(subject, acquisition, 1)
    strictEqual(await countOf(subject, number), count)
  }),
  check('gives back what each of many concurrent calls of release says, once', largeCap, async (subject) => {
    const acquisitions = await burst((index) => subject.acquire(1, unlimited, index))
    await burst((index) => Promise.all([index, 1].map((amount) => giveBack(subject, acquisitions[index], amount))))
    strictEqual(await countOf(subject, 1), 0)
    await Promise.all(callersFrom(0).map((index) => giveBack(subject, acquisitions[index], index)).concat(subject.acquire(1).then(() => {})))
    strictEqual(await countOf(subject, 1), 1)
  })
]

/** Gives back amounts, one after another. */
async function giveBack ({ store }: Subject, acquisition: Acquisition | undefined, ...amounts: readonly number[]): Promise<void> {
  if (acquisition !== undefined) for (const amount of amounts) await store.release(acquisition, amount)
}

async function countOf (subject: Subject, number: number): Promise<number> {
  return (await subject.acquire(number, unlimited, 0)).count
}

/** Checks that nothing is given back for a counter that is lost in some way. */
function nowhere (what: string, cap: number, lose: (subject: Subject, number: number) => Promise<void>): Check {
  return check(`release gives back nothing for a counter that ${what} has removed, whether or not there is another one`, cap, async (subject) => {
    const [first, second] = await inTurn([1, 2], (number) => subject.acquire(number, unlimited, 5))
    for (const number of [1, 2]) await lose(subject, number)
    await giveBack(subject, second, 5)
    for (const number of [1, 2]) await subject.acquire(number, unlimited, 3)
    await giveBack(subject, first, 5)
    deepStrictEqual(await inTurn([1, 2], (number) => countOf(subject, number)), [3, 3])
  })
}
