import { unlimited } from '../store/counter.js'
import { withPeeks, type Rules } from './rules.js'
import { range, simultaneous } from './steps.js'
import { otherQuota } from './test-quota.js'

// docs/rules.md, "Counter and window"
const windowRules: Rules = {
  'counts each caller separately, up to the limit of each request, and no rejected request': (
    quota
  ) => [quota.visit([1, 2, 1], 1), [2, 2, 1, 3, 3].map((limit) => quota.acquire(1, limit))],

  'a request after the previous window opens one, and no later request extends it': (quota) => {
    const gaps = [
      0,
      quota.window / 2,
      quota.window / 2 - 1,
      1,
      quota.window + 1_000,
      quota.window - 1
    ]
    return gaps.map((gap) => [gap, quota.acquire(1, 2)])
  },

  'admits a cost that is within the limit together with the count, and adds all of it': (quota) => [
    quota.acquire(1, 10, 10),
    quota.window,
    [4, 7, 5, 2, 1].map((cost) => quota.acquire(1, 10, cost))
  ],

  'a cost of 0 needs room for 1 and adds nothing, but opens the window': (quota) => [
    quota.acquire(1, 1, 0),
    quota.window - 1,
    quota.acquire(1, 1),
    quota.acquire(1, 1, 0)
  ],

  'grants as much as there is room for, from the least to the most of a request': (quota) => [
    quota.hold(1, 2, 6, 10),
    quota.hold(1, 5, 6, 10),
    quota.hold(1, 2, 6, 10),
    quota.hold(1, 0, 6, 10),
    quota.hold(2, 0, 3, 5),
    quota.hold(2, 0, 3, 5),
    quota.hold(2, 0, 3, 6),
    quota.hold(3, 1, unlimited - 1, unlimited - 1),
    quota.hold(4, 0, 0, 1)
  ],

  'has no room with a limit of 0, also for a cost of 0, and opens the window': (quota) => [
    quota.acquire(1, 0),
    quota.window - 1,
    quota.acquire(1, 0, 0),
    quota.hold(1, 0, 5, 0),
    quota.acquire(1, 1)
  ],

  'grants at most the limit, and has no room for a least above it, whatever is counted': (
    quota
  ) => [
    quota.acquire(1, 5, 6),
    quota.hold(1, 6, 9, 5),
    quota.hold(1, 5, 9, 5),
    quota.hold(2, 0, 9, 5),
    quota.acquire(2, 5, 6),
    quota.acquire(3, unlimited - 1, unlimited)
  ],

  'the largest safe integer as a limit always has room, and costs are added exactly up to it': (
    quota
  ) => [
    quota.visit([1, 1], 1),
    quota.acquire(1),
    quota.visit([2, 2, 2, 2], unlimited, 2 ** 51 + 1),
    quota.acquire(2, unlimited, 0),
    [1, 2, 3].map((least) => quota.hold(3, least, 2 ** 52)),
    quota.count(3)
  ]
}

/** The rules of the counters of any quota with a window. */
export const counterRules: Rules = {
  ...windowRules,
  ...withPeeks(windowRules),

  'a rejected request rejects none of those that arrive together with it': (quota) => [
    quota.acquire(1, 1),
    simultaneous(...quota.visit([1, 2, 1, 3], 1))
  ],

  'peek changes nothing': (quota) => {
    const gaps = [0, quota.window, quota.window - 1]
    return gaps.map((gap) => [gap, quota.peek(1), 1, quota.acquire(1)])
  },

  'list returns every caller, on as many pages as it needs': (quota) => [
    quota.list(),
    range(10).map((page) => simultaneous(...quota.visit(range(32, 32 * page)))),
    quota.acquire(320, unlimited, 0),
    quota.hold(321, 5),
    quota.list()
  ],

  'inspect returns how many callers have a counter, whether or not a window of it counts': (
    quota
  ) => [
    quota.tracked(),
    quota.visit([1, 2, 1, 3], 1),
    otherQuota.visit([4]),
    quota.acquire(5, 1, 0),
    quota.tracked(),
    quota.forget(2, 6),
    quota.tracked()
  ],

  'forget removes the counter of one caller in one quota; its next request opens a window': (
    quota
  ) => [
    quota.visit([1, 2, 1, 2, 1, 2], 2),
    otherQuota.visit([1, 2, 1, 2, 1, 2], 2),
    1_000,
    quota.forget(1),
    quota.list(),
    otherQuota.list(),
    quota.visit([1, 2], 2),
    otherQuota.visit([1, 2], 2)
  ]
}
