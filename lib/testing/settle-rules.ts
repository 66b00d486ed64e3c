import { unlimited } from '../store/counter.js'
import type { Rules } from './rules.js'
import { lower, settle } from './steps.js'
import { all, later, minute, overflowing, own, tracked } from './test-quota.js'

/** The rules of settling in any quota with a window. */
export const settleRules: Rules = {
  'holds an estimate until it is settled, and then counts what was used': (quota) => {
    const first = quota.hold(1, 2, 6)
    const second = quota.hold(1, 4)
    return [
      first,
      second,
      quota.acquire(1, unlimited, 3),
      quota.peek(1),
      quota.list(),
      settle(first, 2),
      quota.peek(1),
      quota.list(),
      quota.count(1),
      settle(second, 4),
      quota.count(1),
      quota.hold(1, 1, 20, 20)
    ]
  },

  'holds nothing of a request whose cost is no estimate': (quota) => [
    quota.acquire(1, unlimited, 3),
    quota.peek(1),
    quota.list()
  ],

  'holds no more than it counts, and counts no less than 0, also beyond the largest integer': (
    quota
  ) => {
    const largest = quota.hold(1, unlimited)
    const other = quota.hold(1, 5)
    const lowered = quota.hold(2, 6)
    return [
      largest,
      other,
      settle(largest),
      quota.peek(1),
      quota.list(),
      settle(other),
      quota.see(1),
      lowered,
      lower(lowered, { count: 4, held: 0 }),
      quota.see(2)
    ]
  },

  'a settlement lowers what is counted and what is held by its amounts, each time': (quota) => {
    const estimate = quota.hold(1, 6)
    const exact = quota.acquire(1, unlimited, 4)
    const amounts = [
      { count: 1, held: 0 },
      { count: 0, held: 2 },
      { count: 0, held: 0 },
      { count: 2, held: 4 },
      { count: 3, held: 0 }
    ]
    return [
      estimate,
      exact,
      amounts.map((less) => [lower(estimate, less), quota.see(1)]),
      lower(exact, { count: 3, held: 0 }),
      quota.see(1)
    ]
  },

  'a settlement ends what its own request holds, whatever was used, and nothing else': (quota) => {
    const first = quota.hold(1, 3)
    const second = quota.hold(1, 4)
    const withoutEstimate = quota.acquire(1, unlimited, 6)
    return [
      first,
      second,
      withoutEstimate,
      settle(first, 3),
      quota.see(1),
      settle(withoutEstimate, 4),
      quota.see(1),
      settle(second, 9),
      quota.see(1)
    ]
  },

  'a settlement changes the window that counted, and no other': (quota) => {
    const first = quota.hold(1, 6)
    const second = quota.hold(1, 5)
    const third = quota.hold(1, 8)
    return [
      first,
      second,
      quota.window - 1,
      quota.settleAndCount(1, second, 3),
      1,
      quota.acquire(1, unlimited, 20),
      quota.hold(1, 7),
      settle(first, 4),
      quota.see(1),
      lower(second, { count: 2, held: 0 }),
      quota.see(1),
      quota.window - 1,
      third,
      1,
      settle(third),
      quota.peek(1),
      quota.count(1)
    ]
  }
}

/** The same at the caller cap. */
export const settleCapRules: Rules = {
  'settles on the counter that has counted': (quota) => {
    const others = tracked.filter((number) => number !== own)
    const [other = 0] = overflowing
    const first = quota.hold(own, 1)
    const second = quota.hold(other, 1)
    const third = quota.hold(other, 5)
    return [
      first,
      quota.visit(others),
      second,
      third,
      quota.settleAndCount(other, third, 3),
      quota.settleAndCount(other, second, 0),
      quota.forget(own, ...others),
      quota.acquire(other, unlimited, 2),
      lower(third, { count: 3, held: 0 }),
      quota.count(other),
      quota.visit(later),
      quota.acquire(own, unlimited, 5),
      quota.settleAndCount(own, first, 0)
    ]
  },

  'a settlement does not lengthen the time for which a counter is kept': (quota) => {
    const held = tracked.map((number) => quota.hold(number, 2))
    return [
      held,
      quota.retention - 1,
      held.map((each) => settle(each, 1)),
      minute,
      // They get counters of their own if a sweep has removed the others.
      quota.visit(later)
    ]
  },

  'a settlement runs no sweep': (quota) => {
    const held = quota.hold(own, 2)
    return [quota.visit(all), held, minute, settle(held, 1), quota.inspect()]
  }
}
