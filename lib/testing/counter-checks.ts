import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import { admitted, burst, caller, check, everyShard, inTurn, largeCap, numberAdmitted, rejected, unlimited } from './checks.js'

/** Checks of the rules in docs/rules.md, "Counter and window". */
export const counterChecks = [
  check('admits as many requests as the limit allows, and rejects the next', largeCap, [], async ({ store, window }) => {
    const results = await inTurn([3, 3, 3, 3], (limit) => store.acquire(caller(1), limit))
    deepStrictEqual(results, [admitted(1, window), admitted(2, window), admitted(3, window), rejected(3, window)])
  }),

  check('counts each caller separately', largeCap, [], async ({ store }) => {
    const results = await inTurn([1, 2, 1], (number) => store.acquire(caller(number), 1))
    deepStrictEqual(results.map(({ admitted }) => admitted), [true, true, false])
  }),

  check('applies the limit of each request, and does not count rejected requests', largeCap, [], async ({ store, window }) => {
    const results = await inTurn([2, 2, 2, 1, 3, 3, unlimited], (limit) => store.acquire(caller(1), limit))
    const expected = [admitted(1, window), admitted(2, window), rejected(2, window), rejected(2, window), admitted(3, window), rejected(3, window), admitted(4, window)]
    deepStrictEqual(results, expected)
  }),

  check('opens a window with the first request, and no later request, admitted or rejected, extends it', largeCap, [], async ({ store, clock, window }) => {
    const results = await inTurn([0, window / 2, window / 2 - 1, 1], (gap) => {
      clock.advance(gap)
      return store.acquire(caller(1), 2)
    })
    deepStrictEqual(results, [admitted(1, window), admitted(2, window / 2), rejected(2, 1), admitted(1, window)])
  }),

  check('opens the next window with the first request after the previous window, and not at the end of that window', largeCap, [], async ({ store, clock, window }) => {
    const results = await inTurn([0, window + 1_000, window - 1], (gap) => {
      clock.advance(gap)
      return store.acquire(caller(1), 1)
    })
    deepStrictEqual(results, [admitted(1, window), admitted(1, window), rejected(1, 1)])
  }),

  check('admits a request whose cost exceeds the limit if the count is below the limit, and adds the whole cost', largeCap, [], async ({ store, window }) => {
    const results = await inTurn([4, 5, 6, 1], (cost) => store.acquire(caller(1), 10, cost))
    deepStrictEqual(results, [admitted(4, window), admitted(9, window), admitted(15, window), rejected(15, window)])
  }),

  check('a cost of 0 adds nothing, but opens the window', largeCap, [], async ({ store, clock, window }) => {
    const results = await inTurn([[0, 0], [window - 1, 1], [0, 0], [1, 0]], ([gap = 0, cost]) => {
      clock.advance(gap)
      return store.acquire(caller(1), 1, cost)
    })
    deepStrictEqual(results, [admitted(0, window), admitted(1, 1), rejected(1, 1), admitted(0, window)])
  }),

  check('adds the cost of each request whose limit is the largest safe integer, even after a rejected request', largeCap, [], async ({ store, window }) => {
    const results = await inTurn([[1, 1], [1, 1], [unlimited, 20], [21, 0], [unlimited, 0]] as const, ([limit, cost]) => store.acquire(caller(1), limit, cost))
    deepStrictEqual(results, [admitted(1, window), rejected(1, window), admitted(21, window), rejected(21, window), admitted(21, window)])
  }),

  check('adds costs exactly, up to the largest safe integer', largeCap, [], async ({ store }) => {
    const cost = 2 ** 51 + 1
    const results = await inTurn([cost, cost, cost, cost], (cost) => store.acquire(caller(1), unlimited, cost))
    deepStrictEqual(results.map(({ count }) => count), [cost, 2 * cost, 3 * cost, unlimited])
  }),

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
