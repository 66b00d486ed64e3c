import { unlimited } from '../store/counter.js'
import type { Demand } from '../store/store.js'
import {
  atOnce,
  clearCounters,
  day,
  flat,
  hour,
  inFlight,
  minute,
  peek,
  Quota,
  range,
  release,
  request,
  type Callers,
  type Operation,
  type Steps
} from './steps.js'

/** For each rule, the steps that show whether a store keeps it. */
export type Scripts = Readonly<Record<string, (quota: Quota, callers: Callers) => Steps>>

const otherQuota = new Quota('chat-2.requests.minute', minute)
const [streams, jobs] = [
  new Quota('streams.in-flight', inFlight),
  new Quota('jobs.in-flight', inFlight)
]
const tokens = new Quota('chat.tokens.hour', hour)
const fourQuotas = [
  new Quota('default', minute),
  tokens,
  new Quota('budget.microdollars.day', day),
  streams
]
/** A demand of a caller in each of the four quotas. */
const together = (number: number, limits: readonly number[], costs: readonly number[]): Demand[] =>
  fourQuotas.map((quota, index) => quota.demand(number, limits[index], costs[index]))
const countsOf = (number: number): Steps => fourQuotas.map((quota) => quota.count(number))
const today = Date.now() + day
/** A quota whose window ends this long after the current day of a time zone. */
const zoned = (end: number): Quota =>
  new Quota('budget.requests.day.Europe/Berlin', 25 * hour, today + end)

// docs/rules.md, "Counter and window"
const counterScripts: Scripts = {
  'counts each caller separately, admits as many requests as the limit of each allows, and does not count rejected requests':
    (quota) => [quota.visit([1, 2, 1], 1), [2, 2, 1, 3, 3].map((limit) => quota.acquire(1, limit))],
  'opens a window with the first request after the previous window, and no later request, admitted or rejected, extends it':
    (quota) =>
      [0, quota.window / 2, quota.window / 2 - 1, 1, quota.window + 1_000, quota.window - 1].map(
        (gap) => [gap, quota.acquire(1, 2)]
      ),
  'admits a request if the count and its cost are within the limit together, and adds the whole cost':
    (quota) => [
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
  'the largest safe integer as a limit always has room, and costs are added exactly up to it': (
    quota
  ) => [
    quota.visit([1, 1], 1),
    quota.acquire(1),
    quota.visit([2, 2, 2, 2], unlimited, 2 ** 51 + 1),
    quota.acquire(2, unlimited, 0)
  ]
}

// docs/rules.md, "Sweep" and "Caller cap and overflow counter"
const callerScripts: Scripts = {
  'a sweep removes a caller one window and 60 s after its last request of any kind, before a lookup':
    (quota, { all, tracked, later }) =>
      [
        [unlimited, 1],
        [1, 1],
        [unlimited, 0]
      ].map(([limit, cost]) => [
        [1, 0].map((early) => [
          quota.visit(all),
          quota.window - 1,
          quota.visit(tracked, limit, cost),
          quota.retention - early,
          quota.visit(later)
        ]),
        quota.retention
      ]),
  'sweeps 60 s after the previous sweep, and no earlier': (
    quota,
    { tracked: [own = 0], later }
  ) => [
    [0, minute - 1, 1, minute - 1, 1, quota.retention].map((gap) => [
      gap,
      quota.acquire(own),
      quota.inspect()
    ]),
    quota.visit(later),
    quota.inspect()
  ],
  // The second gap ends with a sweep, the third with a new window of the overflow counter, and the
  // last one when a sweep is due.
  'a sweep makes room for a caller that uses an overflow counter with an open window': (
    quota,
    { all, tracked: [own = 0], overflowing }
  ) => [
    quota.acquire(own),
    [1, quota.window - 1, 1].map((gap) => [gap, quota.visit(all.slice(1))]),
    minute - 1,
    quota.visit(overflowing)
  ],
  'the overflow counter has the same window and limit as others, and callers with a counter keep using it':
    (quota, { all }) =>
      [0, quota.window, quota.window - 1, 0, 1].map((gap) => [
        gap,
        quota.visit(all, all.length + 4, 2)
      ])
}

/** The rules of the counters of any quota with a window. */
export const windowScripts: Scripts = {
  ...counterScripts,
  ...afterPeeks(counterScripts),
  'peek changes nothing': (quota) =>
    [0, quota.window, quota.window - 1].map((gap) => [gap, quota.peek(1), 1, quota.acquire(1)]),
  'list returns every caller, on as many pages as it needs': (quota) => [
    quota.list(),
    range(10).map((page) => atOnce(...quota.visit(range(32, 32 * page)))),
    quota.acquire(320, unlimited, 0),
    quota.list()
  ],
  'forget removes the counter of one caller in one quota, so that its next request opens a new window':
    (quota) => [
      [quota, otherQuota].map((each) => each.visit([1, 2, 1, 2, 1, 2], 2)),
      1_000,
      quota.forget(1),
      quota.list(),
      otherQuota.list(),
      [quota, otherQuota].map((each) => each.visit([1, 2], 2))
    ],
  'release gives back a part of a cost, no more than was counted, until the window ends, and nothing after it':
    (quota) => {
      const acquire = (cost: number): Operation => quota.acquire(1, unlimited, cost)
      const [six, four, none, five, eight] = [
        acquire(6),
        acquire(4),
        acquire(0),
        acquire(5),
        acquire(8)
      ]
      const giveBack = (from: Operation, ...amounts: number[]): Steps =>
        amounts.map((amount) => [release(from, amount), quota.count(1)])
      return [
        six,
        four,
        none,
        giveBack(six, 0, 4, 4, 1),
        giveBack(none, 1),
        giveBack(four, unlimited, 1),
        five,
        giveBack(six, 6),
        quota.window - 1,
        giveBack(five, 1),
        1,
        giveBack(five, 1),
        eight,
        giveBack(five, 3),
        giveBack(eight, 7),
        quota.acquire(1, 10, 9)
      ]
    }
}

/** The same at the caller cap. */
export const windowCapScripts: Scripts = {
  ...callerScripts,
  ...afterPeeks(callerScripts),
  'tracks no more callers than the cap, even if all arrive at once, and others share the overflow counter':
    (quota, { all, later }) =>
      [all, later].map((numbers) => [
        atOnce(...quota.visit(numbers, 1)),
        quota.inspect(),
        quota.retention
      ]),
  'clearCounters removes all counters of every quota, and resets the sweeps and the interval between them':
    (quota, { all, later }) => [
      [quota, otherQuota].map((each) => [each.visit(all), minute, each.visit(later)]),
      minute / 2,
      clearCounters,
      [quota, otherQuota].map((each) => [
        each.inspect(),
        each.visit(all),
        minute / 2,
        each.visit(all),
        each.inspect()
      ])
    ],
  'peek, list, forget and release are no requests and run no sweep': (
    quota,
    { all, tracked: [own = 0], overflowing, later }
  ) => {
    const first = quota.acquire(own)
    const calls = [
      quota.peek(...later, ...all),
      quota.list(),
      quota.forget(...overflowing),
      release(first),
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
  'list returns each caller whose own counter in the quota has an open window, and no other': (
    quota,
    { all, tracked: [own = 0], later }
  ) => [
    otherQuota.visit(later),
    [quota.visit(all), [quota.window - 1, quota.acquire(own)], 1].map((before) => [
      before,
      quota.list()
    ])
  ],
  'forget makes room for one other caller if the caller has a counter': (
    quota,
    { all, tracked: [own = 0], overflowing, later }
  ) => [
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
  ],
  'release gives back on the counter that has counted': (
    quota,
    { tracked: [own = 0, ...others], overflowing: [other = 0], later }
  ) => {
    const [first, second, third] = [
      quota.acquire(own),
      quota.acquire(other),
      quota.acquire(other, unlimited, 5)
    ]
    return [
      first,
      quota.visit(others),
      second,
      third,
      release(third, 2),
      release(second),
      release(second),
      quota.count(other),
      quota.forget(own, ...others),
      quota.acquire(other, unlimited, 2),
      release(third, 3),
      quota.count(other),
      quota.visit(later),
      quota.acquire(own, unlimited, 5),
      release(first),
      quota.count(own)
    ]
  }
}

/**
 * The rules of requests in flight, of windows that end with the day of a time zone, and of several
 * demands and requests at once.
 */
export const otherScripts: Scripts = {
  'takes a place if the caller has fewer requests in flight in the quota than the limit, and gives it back once':
    () =>
      [streams, jobs].map((quota) => {
        const taken = [2, 2, 2, 1, 3].map((limit) => quota.acquire(1, limit))
        const giveBack = [...taken, ...taken]
          .reverse()
          .map((place) => [release(place), quota.count(1)])
        return [taken, quota.visit([2, 1]), giveBack, quota.count(2)]
      }),
  'peek and list return the number of requests in flight, and forget keeps them': () => {
    const [first, second] = [streams.acquire(1), streams.acquire(1)]
    const read = [streams.peek(1), streams.list()]
    return [
      read,
      first,
      second,
      read,
      streams.forget(1),
      read,
      release(first),
      release(second),
      read
    ]
  },
  'gives back what each of many concurrent calls of release says, once': (quota) =>
    [quota, streams].map((each) => {
      const costOf = (index: number): number => (each === streams ? 1 : index)
      const requests = range(32).map((index) => each.acquire(1, unlimited, costOf(index)))
      const giveBack = requests
        .slice(16)
        .map((request, index) => release(request, costOf(16 + index)))
      const giveOneBack = requests.slice(16).map((request) => release(request))
      return [
        atOnce(...requests),
        atOnce(...giveBack, ...giveOneBack),
        each.count(1),
        atOnce(...giveBack, each.acquire(1)),
        each.count(1)
      ]
    }),
  'release gives back nothing for a counter that was removed, whether or not there is another one':
    (quota) => {
      const afterRemoval = (each: Quota, ...removal: Steps): Steps => {
        const [first, second] = [each.acquire(1), each.acquire(2)]
        return [
          first,
          second,
          removal,
          release(second),
          each.visit([1, 2]),
          release(first),
          each.count(1),
          each.count(2)
        ]
      }
      const removals = [
        [...quota.forget(1, 2)],
        [clearCounters],
        [quota.retention, quota.acquire(3)]
      ]
      return [
        removals.map((removal) => afterRemoval(quota, ...removal)),
        afterRemoval(streams, clearCounters)
      ]
    },
  'opens a new window of a time zone for a later end only, whatever the time': () => [
    [0, 0, -hour, 1, 0, day].map((end) => [2 * hour, zoned(end).acquire(1)]),
    zoned(day).acquire(1, 2),
    zoned(0).acquire(1, 2)
  ],
  'peek, list, forget and release follow the windows of a time zone': () => {
    const [first, again, next] = [zoned(0).acquire(1), zoned(0).acquire(1), zoned(day).acquire(1)]
    const peeks = [-hour, 0, 1].map((end) => zoned(end).peek(1))
    const before = [
      first,
      peeks,
      zoned(0).list(),
      again,
      release(first),
      release(first),
      zoned(0).count(1)
    ]
    return [
      before,
      next,
      release(again),
      zoned(day).peek(1),
      zoned(day).count(1),
      zoned(day).forget(1),
      zoned(day).count(1)
    ]
  },
  'counts each demand of a request, also for different callers, if all of them have room': (
    quota
  ) => {
    const ofTwo = [quota.demand(1, 2), tokens.demand(2, 1)]
    return [
      request(...together(1, [1, 10, 10, 1], [1, 4, 0, 1])),
      request(...ofTwo),
      request(...ofTwo),
      countsOf(1),
      countsOf(2)
    ]
  },
  'release gives back what each demand of a request has counted, once': () => {
    const [costs, limits] = [[2, 3, 4, 1], range(4).map(() => unlimited)]
    const [first, second] = [
      request(...together(1, limits, costs)),
      request(...together(1, limits, costs))
    ]
    const giveBack = costs.map((cost, index) => [
      release(second, cost, index),
      release(second, cost, index)
    ])
    return [first, second, giveBack, countsOf(1)]
  },
  'counts no demand of a request if one of them has no room, whichever it is': () =>
    range(4).map((full) => {
      const before = [2, 0].map((cost) =>
        request(...together(full, [5, 5, 5, 5], [cost, cost, cost, 1]))
      )
      const demands = together(
        full,
        range(4).map((index) => (index === full ? 2 : 5)),
        [2, 2, 2, 1]
      )
      return [before, request(...demands), request(...[...demands].reverse()), countsOf(full)]
    }),
  'a rejected request opens the windows of its other demands, as far as they were asked': (
    quota
  ) => [
    quota.acquire(1, 1),
    request(...together(1, [1, 5, 5, 5], [1, 1, 1, 1])),
    1_000,
    tokens.acquire(1)
  ],
  ...concurrent('on new counters', () => []),
  ...concurrent('on existing counters', () => fourQuotas.map((quota) => quota.acquire(1))),
  ...concurrent('at the start of a window', () => [
    fourQuotas.map((quota) => quota.acquire(1)),
    day
  ])
}

/** The same at the caller cap. */
export const otherCapScripts: Scripts = {
  'each quota has counters, a caller cap, an overflow counter and sweeps of its own': (
    quota,
    { all }
  ) =>
    [1, 2].map(() =>
      [quota, otherQuota, tokens].map((each) => [each.visit(all), each.inspect(), minute / 2])
    ),
  ...concurrent('on overflow counters', ({ all }) =>
    fourQuotas.slice(0, 3).map((quota) => quota.visit(all))
  )
}

/** Scripts that also call `peek` before each request, which returns what the request finds. */
function afterPeeks (scripts: Scripts): Scripts {
  const peekBefore = (step: Operation | number): Steps =>
    typeof step === 'object' && step.call === 'acquire' ? step.demands.map(peek) : []
  return Object.fromEntries(
    Object.entries(scripts).map(([name, stepsOf]) => [
      `peek returns what a request finds: ${name}`,
      (...given) => flat(stepsOf(...given)).map((step) => [peekBefore(step), step])
    ])
  )
}

/**
 * The same request many times at once, among others. Finds a store that reads a counter and then
 * writes it in a second step.
 */
function concurrent (where: string, before: (callers: Callers) => Steps): Scripts {
  const name = `admits and counts as many concurrent requests, with one demand or several, as there is room for: ${where}`
  const stepsOf = (size: number, callers: Callers): Steps => {
    const [caller = 1] = callers.overflowing
    const used = callers.overflowing.length
    const demands = together(caller, [5 + used, 15 + used, unlimited, 7], [1, 3, 7, 1]).slice(
      0,
      size
    )
    const requests = range(32).map((index) =>
      request(...(index % 2 === 0 ? demands : [...demands].reverse()))
    )
    const others = range(32).map((index) => new Quota(`quota-${index}`, day).acquire(index))
    return [before(callers), atOnce(...others, ...requests), countsOf(caller), 2 * day]
  }
  return { [name]: (_, callers) => [1, 4].map((size) => stepsOf(size, callers)) }
}
