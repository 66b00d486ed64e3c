import { unlimited } from '../store/counter.js'
import { budget, minute, streams, tokens, type Quota } from './quota.js'
import type { Rules } from './rules.js'
import { atOnce, clearCounters, range, request, settle, type Steps } from './steps.js'

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

  'holds no more than it counts, although the count cannot exceed the largest integer': (quota) => {
    const largest = quota.hold(1, unlimited)
    return [largest, quota.hold(1, 5), settle(largest, 0), quota.peek(1), quota.list()]
  },

  'a settlement replaces the one before': (quota) => {
    const first = quota.hold(1, 6)
    const exact = quota.acquire(1, unlimited, 4)
    const nothing = quota.hold(1, 0)
    return [
      first,
      exact,
      nothing,
      quota.settleAndCount(1, first, 6, 2, 2, 5, 0, 0, 9),
      quota.settleAndCount(1, nothing, 0, 3, 1, 1),
      quota.settleAndCount(1, exact, 4, 4, 7, 0, 0, 1)
    ]
  },

  'a settlement adds what was used beyond the grant, whatever the limit': (quota) => {
    const held = quota.hold(1, 1, 3, 5)
    return [
      held,
      quota.acquire(1, 5, 2),
      quota.settleAndCount(1, held, 9),
      quota.acquire(1, 11),
      quota.acquire(1, 12)
    ]
  },

  'a settlement takes back only in the window that counted, and adds to the window that is open': (
    quota
  ) => {
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
      quota.settleAndCount(1, first, 0, 4, 1),
      quota.settleAndCount(1, second, 5, 4, 0, 2),
      third,
      quota.window,
      settle(third, 8),
      quota.peek(1),
      settle(third, 10),
      quota.peek(1),
      quota.window - 1,
      quota.count(1)
    ]
  },

  'settling a rejected request changes nothing': (quota) => {
    const rejected = quota.hold(1, 3, 3, 5)
    const full = tokens.demand(2, 1)
    const together = request(quota.demand(1), full)
    return [
      quota.hold(1, 4),
      rejected,
      quota.settleAndCount(1, rejected, 0, 7),
      request(full),
      together,
      quota.settleAndCount(1, together, 0, 7)
    ]
  }
}

/** The same at the caller cap. */
export const settleCapRules: Rules = {
  'settles on the counter that has counted': (
    quota,
    { tracked: [own = 0, ...others], overflowing: [other = 0], later }
  ) => {
    const first = quota.hold(own, 1)
    const second = quota.hold(other, 1)
    const third = quota.hold(other, 5)
    return [
      first,
      quota.visit(others),
      second,
      third,
      quota.settleAndCount(other, third, 3),
      quota.settleAndCount(other, second, 0, 0, 2),
      quota.forget(own, ...others),
      quota.acquire(other, unlimited, 2),
      quota.settleAndCount(other, third, 0),
      quota.visit(later),
      quota.acquire(own, unlimited, 5),
      quota.settleAndCount(own, first, 0)
    ]
  },

  'adds what was used beyond the grant to the overflow counter if the caller has no other': (
    quota,
    { all, tracked: [own = 0], overflowing, later }
  ) => {
    const held = quota.hold(own, 2)
    return [
      held,
      quota.forget(own),
      quota.visit([...all, ...later]),
      quota.forget(own),
      quota.visit(later),
      settle(held, 9),
      quota.count(own),
      overflowing.map((number) => quota.count(number)),
      quota.inspect()
    ]
  },

  'a settlement that adds is seen as a request is, and one that takes back is not': (
    quota,
    { tracked, later }
  ) =>
    [6, 1].map((used) => {
      const held = tracked.map((number) => quota.hold(number, 2))
      return [
        held,
        quota.retention - 1,
        held.map((each) => settle(each, used)),
        minute,
        // They get counters of their own where a sweep has removed the others.
        quota.visit(later),
        quota.retention + minute
      ]
    }),

  'a settlement that adds runs a sweep if one is due': (quota, { all, tracked: [own = 0] }) => {
    const held = quota.hold(own, 2)
    return [
      quota.visit(all),
      held,
      minute,
      settle(held, 1),
      quota.inspect(),
      settle(held, 3),
      quota.inspect()
    ]
  }
}

/** The rules of settling several demands, and many at once. */
export const otherSettleRules: Rules = {
  'settles each demand of a request, once': () => {
    const quotas = [tokens, budget, streams]
    const demands = quotas.map((quota) => ({ ...quota.demand(1), isEstimate: true }))
    const first = request(...demands)
    const second = request(...demands)
    const settleAll = [0, 1, 2].map((index) => [
      settle(second, 0, { index }),
      settle(second, 0, { index })
    ])
    return [first, second, settleAll, quotas.map((quota) => quota.count(1))]
  },

  'settles each of many requests at once with its own amount': (quota) => {
    const requests = range(32).map((index) => quota.hold(1, index))
    const settlements = requests.map((each, index) => settle(each, 31 - index))
    return [
      atOnce(...requests),
      quota.count(1),
      atOnce(...settlements, ...settlements),
      quota.count(1),
      atOnce(...settlements, quota.acquire(1)),
      quota.count(1)
    ]
  },

  'settling takes nothing back from a removed counter, whether or not there is another one': (
    quota
  ) => [
    afterRemoval(quota, quota.forget(1, 2)),
    afterRemoval(quota, [clearCounters]),
    afterRemoval(quota, [quota.retention, quota.acquire(3)]),
    afterRemoval(streams, [clearCounters])
  ]
}

function afterRemoval (quota: Quota, removal: Steps): Steps {
  const first = quota.acquire(1)
  const second = quota.acquire(2)
  return [
    first,
    second,
    removal,
    settle(second),
    quota.visit([1, 2]),
    settle(first),
    quota.count(1),
    quota.count(2)
  ]
}
