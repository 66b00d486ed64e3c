import { unlimited } from '../store/counter.js'
import type { Demand } from '../store/store.js'
import type { Rules } from './rules.js'
import { range, request, simultaneous, type Steps, type StoreCall } from './steps.js'
import {
  all,
  budget,
  day,
  minute,
  otherTokens,
  overflowing,
  streams,
  TestQuota,
  tokens
} from './test-quota.js'

const fourQuotas = [new TestQuota('default', minute), tokens, budget, streams]

/** A demand of a caller in each of the four quotas. */
function together (number: number, limits: readonly number[], costs: readonly number[]): Demand[] {
  return fourQuotas.map((quota, index) => quota.demand(number, limits[index], costs[index]))
}

type Size = readonly [limit: number, least: number, most: number]

function sized (quota: TestQuota, number: number, [limit, least, most]: Size): Demand {
  return { ...quota.demand(number, limit), least, most, isEstimate: true }
}

function countsOf (number: number): Steps {
  return fourQuotas.map((quota) => quota.count(number))
}

const stepRules: Rules = {
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

  'grants each demand of a request what its own quota has room for': () => {
    const demands = [
      { ...tokens.demand(1, 10), least: 1, most: 6, isEstimate: true },
      { ...budget.demand(1, 100), least: 10, most: 60, isEstimate: false }
    ]
    return [request(...demands), request(...demands), request(...demands), countsOf(1)]
  },

  'grants a range no more than the other demands of its unit, and no less than its least': () => {
    const ofBudget = { ...budget.demand(1, 1_000), least: 1, most: 700, isEstimate: true }
    // For each of two demands: its limit, least and most.
    const pairs: [Size, Size][] = [
      [[100, 1, 60], [900, 1, 400]],
      [[100, 1, 400], [900, 1, 400]],
      [[100, 1, 400], [900, 250, 400]],
      [[unlimited, 1, 400], [300, 0, 400]],
      // A cost of one size is granted as it is.
      [[100, 5, 5], [900, 300, 300]],
      [[100, 5, 5], [900, 1, 400]],
      [[100, 80, 80], [900, 1, 30]],
      [[100, 0, 0], [900, 0, 400]],
      // A rejected one grants nothing.
      [[100, 101, 400], [900, 1, 400]]
    ]
    return pairs.map(([size, other], index) => [
      request(sized(tokens, index, size), sized(otherTokens, index, other), ofBudget),
      request(sized(otherTokens, index, other), sized(tokens, index, size)),
      [tokens, otherTokens].map((quota) => [quota.peek(index), quota.count(index)]),
      budget.count(1)
    ])
  },

  'counts and holds no demand of a request if one of them has no room, whichever it is': () =>
    range(4).map((full) => {
      const limits = range(4).map((index) => (index === full ? 2 : 5))
      const demands = together(full, limits, [2, 2, 2, 1]).map((demand) => ({
        ...demand,
        isEstimate: true
      }))
      return [
        request(...together(full, [5, 5, 5, 5], [2, 2, 2, 1])),
        request(...together(full, [5, 5, 5, 5], [0, 0, 0, 1])),
        request(...demands),
        request(...[...demands].reverse()),
        countsOf(full)
      ]
    }),

  'says of each demand of a rejected request whether it has room': () =>
    range(4).map((full) => {
      const limits = range(4).map((index) => (index === full ? 2 : 5))
      return [
        request(...together(full, [5, 5, 5, 5], [2, 2, 2, 1])),
        request(...together(full, [5, 5, 5, 5], [0, 0, 0, 1])),
        request(...together(full, limits, [2, 2, 2, 1]))
      ]
    }),

  'a rejected request opens the windows of its other demands, as far as they were asked': (
    quota
  ) => [
    quota.acquire(1, 1),
    request(...together(1, [1, 5, 5, 5], [1, 1, 1, 1])),
    1_000,
    tokens.acquire(1)
  ]
}

/** The rules of requests with several demands (docs/rules.md, "Several quotas"). */
export const severalQuotasRules: Rules = {
  ...stepRules,
  [raceRule('on new counters')]: () => race(1, 0, []),
  [raceRule('on existing counters')]: () => race(1, 0, visitEach()),
  [raceRule('at the start of a window')]: () => race(1, 0, [visitEach(), day])
}

/** The same at the caller cap. */
export const severalQuotasCapRules: Rules = {
  [raceRule('on overflow counters')]: () => {
    const [caller = 1] = overflowing
    const visits = fourQuotas.slice(0, 3).map((quota) => quota.visit(all))
    return race(caller, overflowing.length, visits)
  }
}

function raceRule (where: string): string {
  return `admits no more simultaneous requests than have room: ${where}`
}

function visitEach (): StoreCall[] {
  return fourQuotas.map((quota) => quota.acquire(1))
}

/**
 * The same request many times together, among others. Finds a store that reads a counter and then
 * writes it in a second step.
 *
 * @param counted What is counted before on the counters that the request reaches.
 */
function race (caller: number, counted: number, before: Steps): Steps {
  return [1, 4].map((size) => {
    const limits = [5 + counted, 15 + counted, unlimited, 7]
    const demands = together(caller, limits, [1, 3, 7, 1]).slice(0, size)
    const reversed = [...demands].reverse()
    const requests = range(32).map((index) => request(...(index % 2 === 0 ? demands : reversed)))
    const others = range(32).map((index) => new TestQuota(`quota-${index}`, day).acquire(index))
    return [before, simultaneous(...others, ...requests), countsOf(caller), 2 * day]
  })
}
