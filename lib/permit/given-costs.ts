import { OptionError } from '../errors.js'
import { isObject } from '../option-checks.js'
import { ignoreRejection, isPromise } from '../promises.js'
import { costRule, rangeOf, type CostRange } from './cost.js'
import type { Quota } from './quota.js'

/** The costs that a handler gives, by the name of the quota. */
export type GivenCosts = ReadonlyMap<string, CostRange>

/** Throws an `OptionError` if a cost is a function, for which there is no request. */
export function assertNoFunctions (quotas: readonly Quota[], given: GivenCosts): void {
  for (const { name, cost } of quotas) {
    if (typeof cost !== 'function' || given.has(name)) continue
    const rule = 'must be given, because the cost of the quota is a function of the request'
    throw new OptionError(`costs.${name}`, rule, undefined)
  }
}

/** Returns the costs that a handler gives, by quota, or throws an `OptionError`. */
export function givenCosts (quotas: readonly Quota[], costs: unknown): GivenCosts {
  const given = new Map<string, CostRange>()
  if (costs === undefined) return given
  const [only] = quotas
  const range = rangeOf(costs)
  if (range !== null && only !== undefined) {
    if (quotas.length > 1) {
      const rule = 'must be an object with the cost of each quota by name'
      throw new OptionError('costs', rule, costs)
    }
    given.set(only.name, checkedRange(only, costs, range, 'costs'))
    return given
  }
  // The entries of a promise, a Map or another collection are no costs.
  if (!isObject(costs) || isPromise(costs) || Symbol.iterator in costs) {
    ignoreRejection(costs)
    throw new OptionError('costs', 'must be a cost, or an object with costs by quota', costs)
  }
  for (const [name, cost] of Object.entries(costs)) {
    const quota = quotas.find((each) => each.name === name)
    if (quota === undefined) {
      const rule =
        'must be for one of the given quotas, or an end of a range with a least not above the most'
      throw new OptionError(`costs.${name}`, rule, cost)
    }
    given.set(name, checkedRange(quota, cost, rangeOf(cost), `costs.${name}`))
  }
  return given
}

/** @param range The range of the cost; null if it is none. */
function checkedRange (
  quota: Quota,
  cost: unknown,
  range: CostRange | null,
  option: string
): CostRange {
  if (quota.longestWindow === null) {
    throw new OptionError(option, 'must not be set for a quota of concurrent requests', cost)
  }
  if (range === null) {
    ignoreRejection(cost)
    throw new OptionError(option, costRule, cost)
  }
  if (quota.unit === 'requests' && typeof cost !== 'number') {
    throw new OptionError(option, 'must be a number for a quota of requests', cost)
  }
  return range
}
