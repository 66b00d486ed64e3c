import { unlimited } from '../store/counter.js'
import type { Rules } from './rules.js'
import { request, settle, settleCopy, settleForeign } from './steps.js'
import { minute, streams, tokens } from './test-quota.js'

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
