import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import type { Acquisition } from '../store/store.js'
import { admitted, burst, caller, check, everyShard, inTurn, largeCap, numberAdmitted, rejected, unlimited, type Check } from './checks.js'

/** A request of one caller: the time since the previous one, the limit, the cost and the expected result. */
type Row = readonly [gap: number, limit: number, cost: number, expected: Acquisition]

const largeCost = 2 ** 51 + 1

/** Checks of the rules in docs/rules.md, "Counter and window". */
export const counterChecks = [
  rows('admits as many requests as the limit allows, and rejects the next', (window) => [
    [0, 3, 1, admitted(1, window)], [0, 3, 1, admitted(2, window)], [0, 3, 1, admitted(3, window)], [0, 3, 1, rejected(3, window)]
  ]),
  check('counts each caller separately', largeCap, [], async ({ store }) => {
    const results = await inTurn([1, 2, 1], (number) => store.acquire(caller(number), 1))
    deepStrictEqual(results.map(({ admitted }) => admitted), [true, true, false])
  }),
  rows('applies the limit of each request, and does not count rejected requests', (window) => [
    [0, 2, 1, admitted(1, window)], [0, 2, 1, admitted(2, window)], [0, 2, 1, rejected(2, window)], [0, 1, 1, rejected(2, window)],
    [0, 3, 1, admitted(3, window)], [0, 3, 1, rejected(3, window)], [0, unlimited, 1, admitted(4, window)]
  ]),
  rows('opens a window with the first request, and no later request, admitted or rejected, extends it', (window) => [
    [0, 2, 1, admitted(1, window)], [window / 2, 2, 1, admitted(2, window / 2)], [window / 2 - 1, 2, 1, rejected(2, 1)], [1, 2, 1, admitted(1, window)]
  ]),
  rows('opens the next window with the first request after the previous window, and not at the end of that window', (window) => [
    [0, 1, 1, admitted(1, window)], [window + 1_000, 1, 1, admitted(1, window)], [window - 1, 1, 1, rejected(1, 1)]
  ]),
  rows('admits a request whose cost exceeds the limit if the count is below the limit, and adds the whole cost', (window) => [
    [0, 10, 4, admitted(4, window)], [0, 10, 5, admitted(9, window)], [0, 10, 6, admitted(15, window)], [0, 10, 1, rejected(15, window)]
  ]),
  rows('a cost of 0 adds nothing, but opens the window', (window) => [
    [0, 1, 0, admitted(0, window)], [window - 1, 1, 1, admitted(1, 1)], [0, 1, 0, rejected(1, 1)], [1, 1, 0, admitted(0, window)]
  ]),
  rows('adds the cost of each request whose limit is the largest safe integer, even after a rejected request', (window) => [
    [0, 1, 1, admitted(1, window)], [0, 1, 1, rejected(1, window)], [0, unlimited, 20, admitted(21, window)], [0, 21, 0, rejected(21, window)], [0, unlimited, 0, admitted(21, window)]
  ]),
  rows('adds costs exactly, up to the largest safe integer', (window) => [
    ...[1, 2, 3].map((times): Row => [0, unlimited, largeCost, admitted(times * largeCost, window)]), [0, unlimited, largeCost, admitted(unlimited, window)]
  ]),

  // Requests at once, which find a store that reads a counter and then writes it in a second step.
  check('admits exactly as many concurrent requests as the limit allows: on a new counter', largeCap, [], async ({ store }) => {
    strictEqual(numberAdmitted(await burst(() => store.acquire(caller(1), 5))), 5)
  }),
  check('admits exactly as many concurrent requests as the limit allows: on an existing counter', largeCap, [], async ({ store }) => {
    await store.acquire(caller(1), 5)
    strictEqual(numberAdmitted(await burst(() => store.acquire(caller(1), 5))), 4)
  }),
  check('admits exactly as many concurrent requests as the limit allows: at the start of a window', largeCap, [], async ({ store, clock, window }) => {
    await store.acquire(caller(1), 5)
    clock.advance(window)
    strictEqual(numberAdmitted(await burst(() => store.acquire(caller(1), 5))), 5)
  }),
  check('adds the cost of each concurrent request', largeCap, [], async ({ store }) => {
    await store.acquire(caller(1), unlimited)
    await burst((index) => store.acquire(caller(1), unlimited, index))
    strictEqual((await store.acquire(caller(1), unlimited, 0)).count, 1 + everyShard * (everyShard - 1) / 2)
  })
]

function rows (name: string, rowsOf: (window: number) => readonly Row[]): Check {
  return check(name, largeCap, [], async ({ store, clock, window }) => {
    for (const [gap, limit, cost, expected] of rowsOf(window)) {
      clock.advance(gap)
      // The cost is 1 by default.
      deepStrictEqual(await store.acquire(caller(1), limit, ...(cost === 1 ? [] : [cost])), expected)
    }
  })
}
