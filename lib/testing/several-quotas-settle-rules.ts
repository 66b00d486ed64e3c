import { unlimited } from '../store/counter.js'
import type { Rules } from './rules.js'
import { clearCounters, range, request, settle, simultaneous, type Steps } from './steps.js'
import { budget, minute, streams, tokens, type TestQuota } from './test-quota.js'

const period = 10 * minute

/** The time from the beginning of a check to the next period. */
const untilNextPeriod = 200_000

/** The rules of what is held for long, of settling several demands, and of many settlements. */
export const severalQuotasSettleRules: Rules = {
  'holds an estimate in the period of ten minutes that admitted it, and in the next one': () => [
    // The second time in a later window of the same counter.
    [tokens, tokens, budget].map((quota) => [
      heldForTwoPeriods(quota),
      3 * period - untilNextPeriod
    ])
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
      tokens.see(1),
      second,
      third,
      settle(second, 1),
      tokens.see(1),
      period,
      tokens.see(1),
      settle(first, 1),
      tokens.see(1),
      tokens.hold(1, 6),
      settle(third, 2),
      tokens.see(1),
      period,
      tokens.see(1)
    ]
  },

  'a new window holds nothing that the last one held in this period or the one before': () => [
    untilNextPeriod - 1,
    tokens.hold(1, 5),
    1,
    tokens.hold(1, 2),
    tokens.window,
    tokens.acquire(1, unlimited, 20),
    tokens.see(1)
  ],

  'an estimate that is no longer held is settled like any other': () => {
    const first = tokens.hold(1, 3)
    const second = tokens.hold(1, 4)
    return [first, 2 * period, second, settle(first, 1), tokens.see(1), settle(second, 1)]
  },

  'settles each demand of a request': () => {
    const quotas = [tokens, budget, streams]
    const demands = quotas.map((quota) => ({ ...quota.demand(1), isEstimate: true }))
    const first = request(...demands)
    const second = request(...demands)
    const settleAll = [0, 1, 2].map((index) => settle(second, 0, index))
    return [first, second, settleAll, quotas.map((quota) => quota.count(1))]
  },

  'settles each of many requests with its own amount, also if they are settled together': (
    quota
  ) => {
    const requests = range(32).map((index) => quota.hold(1, index))
    const settlements = requests.map((each, index) => settle(each, Math.floor(index / 3)))
    return [
      simultaneous(...requests),
      quota.count(1),
      simultaneous(...settlements.slice(0, 16)),
      quota.count(1),
      simultaneous(...settlements.slice(16), quota.acquire(1)),
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
    quota.see(1),
    1,
    quota.see(1),
    quota.hold(1, 1),
    quota.see(1),
    2 * period - 1,
    // A request would note the period, and could hide that a store knows a third one.
    [quota.peek(1), quota.list()],
    1,
    quota.see(1),
    quota.hold(1, 4),
    2 * period,
    // The next request of the caller does not hold the last one again.
    quota.hold(1, 6),
    quota.see(1)
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
