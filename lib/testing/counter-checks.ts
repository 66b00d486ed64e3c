import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import { unlimited } from '../store/counter.js'
import type { Acquisition, Demand } from '../store/store.js'
import {
  admitted, assertResult, burst, check, checkAtCap, day, hour, inFlight, inTurn, isAdmitted, rejected, type Check, type Subject
} from './checks.js'

/** A request: the time since the previous one, the caller, the limit, the cost and the expected result. */
type Row = readonly [gap: number, number: number, limit: number, cost: number, expected: Acquisition]

const largeCost = 2 ** 51 + 1

const places = ['on new counters', 'on existing counters', 'at the start of a window', 'on overflow counters'] as const

const tables: Readonly<Record<string, (window: number) => readonly Row[]>> = {
  'counts each caller separately': (window) => [
    [0, 1, 1, 1, admitted(1, window)], [1, 2, 1, 1, admitted(1, window)], [0, 1, 1, 1, rejected(1, window - 1)]
  ],
  'admits as many requests as the limit of each allows, and does not count rejected requests': (window) => [
    [0, 1, 2, 1, admitted(1, window)], [0, 1, 2, 1, admitted(2, window)], [0, 1, 2, 1, rejected(2, window)],
    [0, 1, 1, 1, rejected(2, window)], [0, 1, 3, 1, admitted(3, window)], [0, 1, 3, 1, rejected(3, window)]
  ],
  'opens a window with the first request after the previous window, and no later request, admitted or rejected, extends it': (window) => [
    [0, 1, 2, 1, admitted(1, window)], [window / 2, 1, 2, 1, admitted(2, window / 2)], [window / 2 - 1, 1, 2, 1, rejected(2, 1)],
    [1, 1, 2, 1, admitted(1, window)], [window + 1_000, 1, 1, 1, admitted(1, window)], [window - 1, 1, 1, 1, rejected(1, 1)]
  ],
  'admits a request if the count and its cost are within the limit together, and adds the whole cost': (window) => [
    [0, 1, 10, 10, admitted(10, window)], [window, 1, 10, 4, admitted(4, window)], [0, 1, 10, 7, rejected(4, window)],
    [0, 1, 10, 5, admitted(9, window)], [0, 1, 10, 2, rejected(9, window)], [0, 1, 10, 1, admitted(10, window)]
  ],
  'a cost of 0 needs room for 1 and adds nothing, but opens the window': (window) => [
    [0, 1, 1, 0, admitted(0, window)], [window - 1, 1, 1, 1, admitted(1, 1)], [0, 1, 1, 0, rejected(1, 1)]
  ],
  'the largest safe integer as a limit always has room, and costs are added exactly up to it': (window) => [
    [0, 1, 1, 1, admitted(1, window)], [0, 1, 1, 1, rejected(1, window)], [0, 1, unlimited, 0, admitted(1, window)],
    ...[1, 2, 3].map((times): Row => [0, 2, unlimited, largeCost, admitted(times * largeCost, window)]),
    [0, 2, unlimited, largeCost, admitted(unlimited, window)], [0, 2, unlimited, 0, admitted(unlimited, window)]
  ]
}

/** Checks of the rules in docs/rules.md, "Counter and window". */
export const counterChecks = [
  ...Object.entries(tables).map(([name, rowsOf]) => check(name, (subject) => runRows(subject, rowsOf(subject.window)))),
  check('peek returns what the next request finds, or null if it finds no open window, and changes nothing', async (subject) => {
    for (const [index, rowsOf] of Object.values(tables).entries()) {
      const first = 10 * index
      strictEqual(await subject.peek(first + 1), null)
      subject.clock.advance(1)
      for (const [gap, number, limit, cost, expected] of rowsOf(subject.window)) {
        subject.clock.advance(gap)
        const peeked = await subject.peek(first + number)
        const { windowRemaining, count, overflow } = peeked ?? { windowRemaining: subject.window, count: 0, overflow: false }
        assertResult(await subject.acquire(first + number, limit, cost), expected)
        const added = expected.admitted ? cost : 0
        assertResult(expected, { windowRemaining, count: Math.min(count + added, unlimited), overflow })
      }
    }
  })
]

/** Checks of requests in flight, and of requests with several demands: all are counted, or none. */
export const oneStepChecks = [
  check('takes a place if the caller has fewer requests in flight in the quota than the limit', async (subject) => {
    for (const name of ['streams', 'jobs']) {
      await runRows(subject.quota(`${name}.in-flight`, inFlight), [
        [0, 1, 2, 1, admitted(1, null)], [0, 1, 2, 1, admitted(2, null)], [0, 1, 2, 1, rejected(2, null)], [0, 1, 1, 1, rejected(2, null)],
        [0, 2, 1, 1, admitted(1, null)], [0, 1, 3, 1, admitted(3, null)], [0, 1, unlimited, 1, admitted(4, null)]
      ])
    }
  }),
  check('counts each demand of a request, also for different callers, if all of them have room', async (subject) => {
    const results = await subject.acquireAll(together(subject, 1, [1, 10, 10, 1], [1, 4, 0, 1]))
    for (const [index, expected] of [admitted(1, subject.window), admitted(4, hour), admitted(0, day), admitted(1, null)].entries()) {
      assertResult(results[index], expected)
    }
    deepStrictEqual(await countsOf(subject, 1), [1, 4, 0, 1])
    const ofTwo = [subject.demand(1, 2), subject.quota(tokens, hour).demand(2, 1)]
    deepStrictEqual((await inTurn([1, 2], () => subject.acquireAll(ofTwo))).map(isAdmitted), [true, false])
    deepStrictEqual([await countsOf(subject, 1), await countsOf(subject, 2)], [[2, 4, 0, 1], [0, 1, 0, 0]])
  }),
  check('counts no demand of a request if one of them has no room, whichever it is', async (subject) => {
    for (const full of [0, 1, 2, 3]) {
      const limits = [0, 1, 2, 3].map((index) => index === full ? 2 : 5)
      for (const cost of [2, 0]) await subject.acquireAll(together(subject, full, [5, 5, 5, 5], [cost, cost, cost, 1]))
      const inOrder = together(subject, full, limits, [2, 2, 2, 1])
      for (const demands of [inOrder, [...inOrder].reverse()]) {
        const results = await subject.acquireAll(demands)
        strictEqual(isAdmitted(results), false)
        for (const [index, { limit }] of demands.entries()) {
          // Null if it was not asked, for one that has room too.
          if (results[index] !== null) assertResult(results[index], { admitted: limit === 5, count: 2 })
        }
      }
      deepStrictEqual(await countsOf(subject, full), [2, 2, 2, 2])
    }
  }),
  check('a rejected request opens the windows of its other demands, as far as they were asked', async (subject) => {
    await subject.acquire(1, 1)
    const [, asked] = await subject.acquireAll(together(subject, 1, [1, 5, 5, 5], [1, 1, 1, 1]))
    subject.clock.advance(1_000)
    if (asked != null) strictEqual((await subject.quota(tokens, hour).acquire(1)).windowRemaining, hour - 1_000)
  }),
  ...places.flatMap((where) => [
    // These find a store that reads a counter and then writes it in a second step.
    atOnce(`admits exactly as many concurrent requests as there is room for: ${where}`, where, 1),
    atOnce(`counts exactly what it admits of concurrent requests with several demands: ${where}`, where, 4)
  ])
]

const tokens = 'chat.tokens.hour'

/** The quota of the subject and three others of the store, the last one of requests in flight. */
function quotasOf (subject: Subject): Subject[] {
  return [subject, subject.quota(tokens, hour), subject.quota('budget.microdollars.day', day), subject.quota('chat.in-flight', inFlight)]
}

// What a request at once with others counts, and for how much there is room, by window.
const amounts = new Map([[hour, { cost: 3, room: 14 }], [day, { cost: 7, room: unlimited }], [inFlight, { cost: 1, room: 6 }]])

/** A demand of a caller in each of these quotas. */
function together (subject: Subject, number: number, limits: readonly number[], costs: readonly number[]): Demand[] {
  return quotasOf(subject).map((quota, index) => quota.demand(number, limits[index], costs[index]))
}

function countsOf (subject: Subject, number: number): Promise<number[]> {
  return inTurn(quotasOf(subject), (quota) => quota.countOf(number))
}

async function runRows (subject: Subject, rows: readonly Row[]): Promise<void> {
  for (const [gap, number, limit, cost, expected] of rows) {
    subject.clock.advance(gap)
    assertResult(await subject.acquire(number, limit, cost), expected)
  }
}

/** A check that sends the same request many times at once, with its demands in both orders. Other callers come in between. */
function atOnce (name: string, where: typeof places[number], size: number): Check {
  return (where === 'on overflow counters' ? checkAtCap : check)(name, async (subject) => {
    const quotas = quotasOf(subject).slice(0, size)
    const hasCounts = where === 'on existing counters' || where === 'on overflow counters'
    let number = 1
    if (where === 'on overflow counters') for (const quota of quotas.slice(0, 3)) number = (await quota.fill()).overflowing[0].number
    if (where !== 'on new counters') for (const quota of quotas) await quota.acquire(number)
    if (where === 'at the start of a window') subject.clock.advance(day)
    const rows = await inTurn(quotas, async (quota) => {
      const { cost, room } = amounts.get(quota.window) ?? { cost: 1, room: 4 }
      const count = hasCounts || quota.window === inFlight ? await quota.countOf(number) : 0
      return { demand: quota.demand(number, Math.min(count + room, unlimited), cost), count: count + 4 * cost }
    })
    const demands = rows.map(({ demand }) => demand)
    const others = burst((index) => subject.quota('others.requests.day', day).acquire(index))
    const results = await burst((index) => subject.acquireAll(index % 2 === 0 ? demands : [...demands].reverse()))
    await others
    strictEqual(results.filter(isAdmitted).length, 4)
    deepStrictEqual(await inTurn(quotas, (quota) => quota.countOf(number)), rows.map(({ count }) => count))
  })
}
