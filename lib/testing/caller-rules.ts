import { unlimited } from '../store/counter.js'
import { withPeeks, type Rules } from './rules.js'
import { clearCounters, lower, request, simultaneous } from './steps.js'
import {
  all,
  later,
  minute,
  otherQuota,
  overflowing,
  own,
  streams,
  tokens,
  tracked
} from './test-quota.js'

// docs/rules.md, "Sweep" and "Caller cap and overflow counter"
const sweepRules: Rules = {
  'a sweep removes a caller one window and 60 s after its last request, before a lookup': (quota) =>
    [1, 0].map((early) => [
      quota.visit(all),
      quota.window - 1,
      quota.visit(tracked),
      quota.retention - early,
      quota.visit(later)
    ]),

  'sweeps 60 s after the previous sweep, and no earlier': (quota) => {
    const gaps = [0, minute - 1, 1, minute - 1, 1, quota.retention]
    return [
      gaps.map((gap) => [gap, quota.acquire(own), quota.inspect()]),
      quota.visit(later),
      quota.inspect()
    ]
  },

  // The second gap ends with a sweep, the third with a new window of the overflow counter, and the
  // last one when a sweep is due.
  'a sweep makes room for a caller that uses an overflow counter with an open window': (quota) => [
    quota.acquire(own),
    [1, quota.window - 1, 1].map((gap) => [gap, quota.visit(all.slice(1))]),
    minute - 1,
    quota.visit(overflowing)
  ],

  'the overflow counter has the window and limit of others; who has a counter keeps using it': (
    quota
  ) => {
    const gaps = [0, quota.window, quota.window - 1, 0, 1]
    return gaps.map((gap) => [gap, quota.visit(all, all.length + 4, 2)])
  }
}

/** The rules of a quota's callers, with so small a cap that some of them use overflow counters. */
export const callerRules: Rules = {
  ...sweepRules,
  ...withPeeks(sweepRules),

  'a request that is rejected, or that counts nothing, sets lastSeen like any other': (quota) => {
    const lastRequests = [quota.visit(tracked, 1), quota.visit(tracked, unlimited, 0)]
    return lastRequests.map((requests) => [
      quota.visit(all),
      quota.window - 1,
      requests,
      quota.retention - 1,
      quota.visit(later),
      quota.retention
    ])
  },

  'tracks no more callers than the cap, also in a race; others share the overflow counter': (
    quota
  ) =>
    [all, later].map((numbers) => [
      simultaneous(...quota.visit(numbers, 1)),
      quota.inspect(),
      quota.retention
    ]),

  'clearCounters removes all counters and places, and resets the sweeps and their interval': (
    quota
  ) => {
    const both = [quota, otherQuota]
    return [
      both.map((each) => [each.visit(all), minute, each.visit(later)]),
      minute / 2,
      streams.acquire(own),
      clearCounters,
      [streams.peek(own), streams.list(), streams.inspect()],
      both.map((each) => [
        each.inspect(),
        each.visit(all),
        minute / 2,
        each.visit(all),
        each.inspect()
      ])
    ]
  },

  'peek, list, forget and a settlement are no requests and run no sweep': (quota) => {
    const first = quota.acquire(own)
    const calls = [
      quota.peek(...later, ...all),
      quota.list(),
      quota.forget(...overflowing),
      lower(first, { count: 0, held: 0 }),
      quota.inspect()
    ]
    const gaps = [quota.window - 1, quota.retention - quota.window + 1]
    return [
      calls,
      minute,
      first,
      quota.visit(all),
      gaps.map((gap) => [gap, calls]),
      quota.visit(later),
      quota.inspect()
    ]
  },

  'peek finds the overflow counter until a sweep is due, also if that would make room': (quota) => [
    quota.visit(tracked),
    quota.retention - 1,
    quota.visit(overflowing),
    [1, minute - 2, 1].map((gap) => [gap, quota.peek(...overflowing)])
  ],

  'peek finds the overflow counter if the sweep that is due removes no counter': (quota) => [
    quota.visit(tracked),
    minute / 2,
    quota.visit(overflowing),
    minute / 2,
    quota.peek(...overflowing)
  ],

  'list returns each caller whose own counter in the quota has an open window, and no other': (
    quota
  ) => [
    otherQuota.visit(later),
    quota.visit(all),
    quota.list(),
    quota.window - 1,
    quota.acquire(own),
    quota.list(),
    1,
    quota.list()
  ],

  'forget makes room for one other caller if the caller has a counter': (quota) => [
    quota.visit(all),
    [overflowing, [own, own]].map((callers) => [
      quota.forget(...callers),
      quota.inspect(),
      quota.visit(later)
    ]),
    quota.retention,
    quota.visit(later),
    quota.forget(...all),
    quota.visit(all)
  ]
}

/** The same for several quotas, and what has no cap. */
export const severalQuotasCallerRules: Rules = {
  'a request that one of its quotas rejects sets lastSeen in each of them': (quota) => [
    quota.visit(all),
    tokens.visit(tracked),
    quota.window - 1,
    tracked.map((number) => request(quota.demand(number), tokens.demand(number, 1))),
    quota.retention - 1,
    quota.visit(later)
  ],

  'each quota has counters, a caller cap, an overflow counter and sweeps of its own': (quota) => {
    const visits = [quota, otherQuota, tokens].map((each) => [
      each.visit(all),
      each.inspect(),
      minute / 2
    ])
    return [visits, visits]
  }
}
