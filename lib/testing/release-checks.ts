import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import { unlimited } from '../store/counter.js'
import type { Acquisition } from '../store/store.js'
import { burst, check, checkAtCap, everyShard, inFlight, inTurn, type Subject } from './checks.js'

/** The time since the previous step; a request, or the index of one to give back; the cost or amount; and the count after it. */
type Step = readonly [gap: number, step: 'acquire' | number, amount: number, count: number]

const removals: Readonly<Record<string, (quota: Subject) => unknown>> = {
  forget: (quota) => inTurn([1, 2], (number) => quota.forget(number)),
  clearCounters: (quota) => quota.store.clearCounters(),
  async 'a sweep' (quota) {
    quota.clock.advance(quota.retention)
    await quota.visit(everyShard)
  }
}

/** Checks of `release` for costs. */
export const releaseChecks = [
  check('release gives back a part of a cost, and no more than was counted, however often it is called', async (subject) => {
    await runSteps(subject, [
      [0, 'acquire', 6, 6], [0, 'acquire', 4, 10], [0, 'acquire', 0, 10], [0, 0, 0, 10], [0, 0, 4, 6], [0, 0, 4, 4], [0, 0, 1, 4],
      [0, 2, 1, 4], [0, 1, unlimited, 0], [0, 1, 1, 0], [0, 'acquire', 1, 1], [0, 0, 6, 1]
    ])
    strictEqual((await subject.acquire(1, 10, 9)).admitted, true)
  }),
  check('release gives back until the window ends, and nothing after it, whether or not the next one is open', async (subject) => {
    await runSteps(subject, [[0, 'acquire', 5, 5], [subject.window - 1, 0, 1, 4], [1, 0, 1, 0], [0, 'acquire', 8, 8], [0, 0, 3, 8]])
  }),
  checkAtCap('release neither extends a window nor updates the time of the last request', async (subject) => {
    const { tracked } = await subject.fill()
    subject.clock.advance(subject.window - 1)
    await subject.store.release(tracked[0].acquisition, 1)
    subject.clock.advance(subject.retention - subject.window + 1)
    strictEqual(await subject.trackedOf(everyShard), tracked.length)
  }),
  checkAtCap('release gives back on the counter that has counted, the caller\'s own or the overflow counter', async (subject) => {
    const { overflowing: [{ number, acquisition: first }], tracked } = await subject.fill()
    const count = await subject.countOf(number)
    const acquisition = await subject.acquire(number, unlimited, 5)
    await subject.store.release(acquisition, 2)
    await subject.store.release(first, 1)
    strictEqual(await subject.countOf(number), count + 2)
    for (const { number } of tracked) await subject.forget(number)
    await subject.acquire(number, unlimited, 2)
    await subject.store.release(acquisition, 3)
    strictEqual(await subject.countOf(number), 2)
    await subject.visit(everyShard)
    const [{ number: former, acquisition: lost }] = tracked
    const after = await subject.acquire(former, unlimited, 5)
    strictEqual(after.overflow, true)
    await subject.store.release(lost, 1)
    strictEqual(await subject.countOf(former), after.count)
  })
]

/** Checks of `release` that also concern requests in flight. */
export const placeReleaseChecks = [
  check('release gives back one place of the caller, once, and none of other callers', async (subject) => {
    const streams = subject.quota('streams.in-flight', inFlight)
    await streams.acquire(2)
    await runSteps(streams, [
      [0, 'acquire', 1, 1], [0, 'acquire', 1, 2], [0, 'acquire', 1, 3], [0, 1, 1, 2], [0, 1, 1, 2], [0, 0, 1, 1], [0, 1, 1, 1], [0, 2, 1, 0]
    ])
    strictEqual(await streams.countOf(2), 1)
  }),
  check('gives back what each of many concurrent calls of release says, once', async (subject) => {
    for (const quota of [subject, subject.quota('streams.in-flight', inFlight)]) {
      const costOf = (index: number): number => quota.window === inFlight ? 1 : index
      const acquisitions = await burst((index) => quota.acquire(1, unlimited, costOf(index)))
      const giveBack = (amountOf: typeof costOf) => acquisitions.map(async (each, index) => quota.store.release(each, amountOf(index)))
      await Promise.all([...giveBack(costOf), ...giveBack(() => 1)])
      strictEqual(await quota.countOf(1), 0)
      await Promise.all([...giveBack(costOf), quota.acquire(1)])
      strictEqual(await quota.countOf(1), 1)
    }
  }),
  ...Object.entries(removals).map(([what, remove]) =>
    check(`release gives back nothing for a counter that ${what} has removed, whether or not there is another one`, async (subject) => {
      const quotas = what === 'clearCounters' ? [subject, subject.quota('streams.in-flight', inFlight)] : [subject]
      for (const quota of quotas) {
        const first = await quota.acquire(1)
        const second = await quota.acquire(2)
        await remove(quota)
        await quota.store.release(second, 1)
        for (const number of [1, 2]) await quota.acquire(number)
        await quota.store.release(first, 1)
        deepStrictEqual(await inTurn([1, 2], (number) => quota.countOf(number)), [1, 1])
      }
    }))
]

async function runSteps (subject: Subject, steps: readonly Step[]): Promise<void> {
  const acquisitions: Acquisition[] = []
  for (const [gap, step, amount, count] of steps) {
    subject.clock.advance(gap)
    const acquisition = acquisitions[Number(step)]
    if (acquisition === undefined) acquisitions.push(await subject.acquire(1, unlimited, amount))
    else await subject.store.release(acquisition, amount)
    strictEqual(await subject.countOf(1), count)
  }
}
