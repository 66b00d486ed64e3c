import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import type { Acquisition } from '../store/store.js'
import { admitted, assertResult, burst, check, everyShard, inTurn, largeCap, numberAdmitted, rejected, smallCap, unlimited, type Check } from './checks.js'

/** A request of one caller: the time since the previous one, the limit, the cost and the expected result. */
type Row = readonly [gap: number, limit: number, cost: number, expected: Acquisition]

const largeCost = 2 ** 51 + 1

/** Checks of the rules in docs/rules.md, "Counter and window". */
export const counterChecks = [
  check('counts each caller separately', largeCap, async (subject) => {
    const results = await inTurn([1, 2, 1], (number) => subject.acquire(number, 1))
    deepStrictEqual(results.map(({ admitted }) => admitted), [true, true, false])
  }),
  rows('admits as many requests as the limit of each allows, and does not count rejected requests', (window) => [
    [0, 2, 1, admitted(1, window)], [0, 2, 1, admitted(2, window)], [0, 2, 1, rejected(2, window)], [0, 1, 1, rejected(2, window)],
    [0, 3, 1, admitted(3, window)], [0, 3, 1, rejected(3, window)], [0, unlimited, 1, admitted(4, window)]
  ]),
  rows('opens a window with the first request, and no later request, admitted or rejected, extends it', (window) => [
    [0, 2, 1, admitted(1, window)], [window / 2, 2, 1, admitted(2, window / 2)], [window / 2 - 1, 2, 1, rejected(2, 1)], [1, 2, 1, admitted(1, window)]
  ]),
  rows('opens the next window with the first request after the previous window, and not at the end of that window', (window) => [
    [0, 1, 1, admitted(1, window)], [window + 1_000, 1, 1, admitted(1, window)], [window - 1, 1, 1, rejected(1, 1)]
  ]),
  rows('admits a request if the count and its cost are within the limit together, and adds the whole cost', (window) => [
    [0, 10, 10, admitted(10, window)], [window, 10, 4, admitted(4, window)], [0, 10, 7, rejected(4, window)], [0, 10, 5, admitted(9, window)],
    [0, 10, 2, rejected(9, window)], [0, 10, 1, admitted(10, window)], [0, 11, 2, rejected(10, window)]
  ]),
  rows('a cost of 0 needs room for 1 and adds nothing, but opens the window', (window) => [
    [0, 1, 0, admitted(0, window)], [window - 1, 1, 1, admitted(1, 1)], [0, 1, 0, rejected(1, 1)], [1, 1, 0, admitted(0, window)]
  ]),
  rows('the largest safe integer as a limit always has room, even after a rejected request', (window) => [
    [0, 1, 1, admitted(1, window)], [0, 1, 1, rejected(1, window)], [0, unlimited, 20, admitted(21, window)], [0, 21, 0, rejected(21, window)], [0, unlimited, 0, admitted(21, window)]
  ]),
  rows('adds costs exactly, up to the largest safe integer', (window) => [
    ...[1, 2, 3].map((times): Row => [0, unlimited, largeCost, admitted(times * largeCost, window)]), [0, unlimited, largeCost, admitted(unlimited, window)]
  ]),

  // Requests at once, which find a store that reads a counter and then writes it in a second step.
  check('admits exactly as many concurrent requests as the limit allows: on a new counter', largeCap, async (subject) => {
    strictEqual(numberAdmitted(await burst(() => subject.acquire(1, 5))), 5)
  }),
  check('admits exactly as many concurrent requests as the limit allows: on an existing counter', largeCap, async (subject) => {
    await subject.acquire(1, 5)
    strictEqual(numberAdmitted(await burst(() => subject.acquire(1, 5))), 4)
  }),
  check('admits exactly as many concurrent requests as the limit allows: at the start of a window', largeCap, async (subject) => {
    await subject.acquire(1, 5)
    subject.clock.advance(subject.window)
    strictEqual(numberAdmitted(await burst(() => subject.acquire(1, 5))), 5)
  }),
  check('admits exactly as many concurrent requests as the limit allows: on the overflow counter', smallCap, async (subject) => {
    const { overflowing: [{ number }] } = await subject.fill()
    const { count } = await subject.acquire(number)
    strictEqual(numberAdmitted(await burst(() => subject.acquire(number, count + 5))), 5)
    subject.clock.advance(subject.window)
    strictEqual(numberAdmitted(await burst(() => subject.acquire(number, 5))), 5)
  }),
  check('adds the cost of each concurrent request', largeCap, async (subject) => {
    await subject.acquire(1)
    await burst((index) => subject.acquire(1, unlimited, index))
    strictEqual((await subject.acquire(1, unlimited, 0)).count, 1 + everyShard * (everyShard - 1) / 2)
  })
]

function rows (name: string, rowsOf: (window: number) => readonly Row[]): Check {
  return check(name, largeCap, async (subject) => {
    for (const [gap, limit, cost, expected] of rowsOf(subject.window)) {
      subject.clock.advance(gap)
      assertResult(await subject.acquire(1, limit, cost), expected)
    }
  })
}
