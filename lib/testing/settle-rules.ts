import { unlimited } from '../store/counter.js'
import type { Rules } from './rules.js'
import {
  clearCounters,
  range,
  request,
  settle,
  settleCopy,
  settleForeign,
  simultaneous,
  type Steps
} from './steps.js'
import { budget, minute, streams, tokens, type TestQuota } from './test-quota.js'

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

  'a settlement lowers what is counted, and never raises it; a later one can lower it further': (
    quota
  ) => {
    const estimate = quota.hold(1, 6)
    const exact = quota.acquire(1, unlimited, 4)
    const nothing = quota.hold(1, 0)
    return [
      estimate,
      exact,
      nothing,
      quota.settleAndCount(1, estimate, 9, 6, 5, 5, 9, 2, 3, 0, 0, 6),
      quota.settleAndCount(1, nothing, 3, 0),
      quota.settleAndCount(1, exact, 4, 7, 1, 1, 4, 0)
    ]
  },

  'a settlement ends what is held, whatever was used, and that of no other request': (quota) => {
    const first = quota.hold(1, 3)
    const second = quota.hold(1, 4)
    const withoutEstimate = quota.acquire(1, unlimited, 6)
    return [
      first,
      second,
      withoutEstimate,
      quota.settleAndCount(1, first, 5, 3, 0),
      quota.settleAndCount(1, withoutEstimate, 4),
      quota.peek(1),
      quota.list(),
      quota.settleAndCount(1, second, 4)
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
      quota.settleAndCount(1, first, 4, 0),
      quota.settleAndCount(1, second, 2, 0),
      quota.window - 1,
      third,
      1,
      settle(third, 0),
      quota.peek(1),
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
  },

  'settling a copy, or what another store returned, is a TypeError and changes nothing': (
    quota
  ) => {
    const estimate = quota.hold(1, 4)
    const rejected = quota.hold(1, 3, 3, 5)
    const place = streams.acquire(1)
    return [
      estimate,
      rejected,
      place,
      [estimate, rejected, place].map((each) => [settleCopy(each), settleForeign(each)]),
      quota.count(1),
      streams.count(1),
      settle(estimate, 1),
      settle(place),
      [estimate, place].map((each) => [settleCopy(each), settleForeign(each)]),
      quota.count(1),
      streams.count(1)
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
      quota.settleAndCount(other, second, 0),
      quota.forget(own, ...others),
      quota.acquire(other, unlimited, 2),
      quota.settleAndCount(other, third, 0),
      quota.visit(later),
      quota.acquire(own, unlimited, 5),
      quota.settleAndCount(own, first, 0)
    ]
  },

  'a settlement does not lengthen the time for which a counter is kept': (
    quota,
    { tracked, later }
  ) => {
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

  'a settlement runs no sweep': (quota, { all, tracked: [own = 0] }) => {
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

const period = 10 * minute

/** The time from the beginning of a check to the next period. */
const untilNextPeriod = 200_000

/** The rules of what is held for long, of settling several demands, and of many settlements. */
export const severalQuotasSettleRules: Rules = {
  'holds an estimate in the period of ten minutes that admitted it, and in the next one': () => [
    heldForTwoPeriods(tokens),
    3 * period - untilNextPeriod,
    heldForTwoPeriods(budget)
  ],

  'a settlement ends what is held in the period that admitted it, and in no other': () => {
    const first = tokens.hold(1, 3)
    const early = tokens.hold(1, 2)
    const second = tokens.hold(1, 4)
    const third = tokens.hold(1, 5)
    return [
      first,
      early,
      untilNextPeriod,
      // Before another request is counted in the new period.
      settle(early, 1),
      heldNow(tokens),
      second,
      third,
      settle(second, 1),
      heldNow(tokens),
      period,
      heldNow(tokens),
      settle(first, 1),
      heldNow(tokens),
      tokens.hold(1, 6),
      settle(third, 2),
      heldNow(tokens),
      period,
      heldNow(tokens)
    ]
  },

  'a new window holds nothing that the last one held in this period or the one before': () => [
    untilNextPeriod - 1,
    tokens.hold(1, 5),
    1,
    tokens.hold(1, 2),
    tokens.window,
    tokens.acquire(1, unlimited, 20),
    heldNow(tokens)
  ],

  'an estimate that is no longer held is settled like any other': () => {
    const first = tokens.hold(1, 3)
    const second = tokens.hold(1, 4)
    return [first, 2 * period, second, settle(first, 1), heldNow(tokens), settle(second, 1)]
  },

  'settles each demand of a request, once': () => {
    const quotas = [tokens, budget, streams]
    const demands = quotas.map((quota) => ({ ...quota.demand(1), isEstimate: true }))
    const first = request(...demands)
    const second = request(...demands)
    const settleAll = [0, 1, 2].map((index) => [
      settle(second, 0, index),
      settle(second, 0, index)
    ])
    return [first, second, settleAll, quotas.map((quota) => quota.count(1))]
  },

  'settles each of many requests with its own amount, also if they are settled together': (
    quota
  ) => {
    const requests = range(32).map((index) => quota.hold(1, index))
    const settlements = requests.map((each, index) => settle(each, 31 - index))
    return [
      simultaneous(...requests),
      quota.count(1),
      simultaneous(...settlements, ...settlements),
      quota.count(1),
      simultaneous(...settlements, quota.acquire(1)),
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

/** What is held, as each function returns it. */
function heldNow (quota: TestQuota): Steps {
  return [quota.peek(1), quota.list(), quota.count(1)]
}

/** Reads what is held just before and after each change. */
function heldForTwoPeriods (quota: TestQuota): Steps {
  return [
    quota.hold(1, 3),
    untilNextPeriod - 1,
    quota.hold(1, 2),
    quota.acquire(1, unlimited, 7),
    1,
    quota.hold(1, 4),
    period - 1,
    heldNow(quota),
    1,
    heldNow(quota),
    quota.hold(1, 1),
    heldNow(quota),
    2 * period - 1,
    // A request would note the period, and could hide that a store knows a third one.
    [quota.peek(1), quota.list()],
    1,
    heldNow(quota),
    quota.hold(1, 4),
    2 * period,
    // The next request of the caller does not hold the last one again.
    quota.hold(1, 6),
    heldNow(quota)
  ]
}

function afterRemoval (quota: TestQuota, removal: Steps): Steps {
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
