import { deepStrictEqual, notStrictEqual, strictEqual } from 'node:assert/strict'
import type { Demand } from '../store/store.js'
import { admitted, assertResult, burst, caller, check, day, hour, inTurn, largeCap, numberAdmitted, smallCap, unlimited, type Subject } from './checks.js'

/** Checks of requests with several demands: all are counted, or none. */
export const oneStepChecks = [
  check('counts each demand of a request if all of them have room', largeCap, async (subject) => {
    const results = await subject.acquireAll(together(subject, 1, [1, 10, 10], [1, 4, 0]))
    for (const [index, expected] of [admitted(1, subject.window), admitted(4, hour), admitted(0, day)].entries()) {
      const result = results[index]
      notStrictEqual(result, null)
      if (result != null) assertResult(result, expected)
    }
    deepStrictEqual(await countsOf(subject, 1), [1, 4, 0])
  }),
  check('counts no demand of a request if one of them has no room, whichever it is', largeCap, async (subject) => {
    for (const full of [0, 1, 2]) {
      const limits = [0, 1, 2].map((index) => index === full ? 2 : 5)
      await subject.acquireAll(together(subject, full, [5, 5, 5], [2, 2, 2]))
      for (const demands of bothWays(together(subject, full, limits, [2, 2, 2]))) {
        const results = await subject.acquireAll(demands)
        strictEqual(numberAdmitted([results]), 0)
        // Null if it was not asked, for one that has room too.
        for (const [index, result] of results.entries()) strictEqual(result?.admitted ?? demands[index]?.limit === 5, demands[index]?.limit === 5)
        for (const result of results) strictEqual(result?.count ?? 2, 2)
      }
      deepStrictEqual(await countsOf(subject, full), [2, 2, 2])
    }
  }),
  check('a rejected request opens the windows of its other demands, as far as they were asked', largeCap, async (subject) => {
    await subject.acquire(1, 1)
    const [, asked] = await subject.acquireAll(together(subject, 1, [1, 5, 5], [1, 1, 1]))
    subject.clock.advance(1_000)
    if (asked != null) strictEqual((await subject.acquireOne(other(subject)[0].demand(1))).windowRemaining, hour - 1_000)
  }),
  check('decides on demands of different callers in one request', largeCap, async (subject) => {
    const [second] = other(subject)
    const demands = [subject.demand(1, 2), second.demand(2, 1)]
    deepStrictEqual((await inTurn([1, 2], () => subject.acquireAll(demands))).map((results) => numberAdmitted([results])), [1, 0])
    strictEqual((await second.acquire(1, 1)).count, 1)
    strictEqual((await second.acquire(2)).count, 2)
  }),

  ...(['on new counters', 'on existing counters', 'at the start of a window'] as const).map((where) =>
    check(`counts exactly what it admits of concurrent requests with several demands: ${where}`, largeCap, async (subject) => {
      const demands = together(subject, 1, [5, 14, unlimited], [1, 3, 7])
      if (where !== 'on new counters') await subject.acquireAll(demands)
      if (where === 'at the start of a window') subject.clock.advance(day)
      strictEqual(await admittedAtOnce(subject, demands), where === 'on existing counters' ? 3 : 4)
      deepStrictEqual(await countsOf(subject, 1), [4, 12, 28])
    })),
  check('counts exactly what it admits of concurrent requests with several demands: on overflow counters', smallCap, async (subject) => {
    const [second] = other(subject)
    const { overflowing: [{ number }] } = await subject.fill()
    await second.fill()
    const counts = await inTurn([subject, second], async (quota) => (await quota.acquire(number, unlimited, 0)).count)
    const [first = 0, next = 0] = counts
    strictEqual(await admittedAtOnce(subject, [subject.demand(number, first + 5, 1), second.demand(number, next + 9, 3)]), 3)
    deepStrictEqual(await inTurn([subject, second], async (quota) => (await quota.acquire(number, unlimited, 0)).count), [first + 3, next + 9])
  })
]

/** Two other quotas of the store. */
function other (subject: Subject): [Subject, Subject] {
  return [subject.quota('chat.tokens.hour', hour), subject.quota('budget.microdollars.day', day)]
}

/** A demand of a caller in each of three quotas. */
function together (subject: Subject, number: number, limits: readonly number[], costs: readonly number[]): Demand[] {
  return [subject, ...other(subject)].map((quota, index) => quota.demand(number, limits[index], costs[index]))
}

async function countsOf (subject: Subject, number: number): Promise<number[]> {
  const results = await inTurn(together(subject, number, [], [0, 0, 0]), (demand) => subject.acquireOne(demand))
  return results.map(({ count }) => count)
}

function bothWays (demands: readonly Demand[]): (readonly Demand[])[] {
  return [demands, [...demands].reverse()]
}

/** Sends the same request many times at once, with its demands in both orders, and returns how many are admitted. Other callers come in between. */
async function admittedAtOnce (subject: Subject, demands: readonly Demand[]): Promise<number> {
  const ways = bothWays(demands)
  const others = burst((index) => subject.acquireAll(demands.map((demand) => ({ ...demand, counters: 'others.requests.day', callerKey: caller(index) })).slice(0, 1)))
  const results = await burst((index) => subject.acquireAll(ways[index % 2] ?? []))
  await others
  return numberAdmitted(results)
}
