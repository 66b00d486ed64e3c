import { formatType, parameterError } from '../errors.js'
import { entriesOf, isPlain } from '../option-checks.js'
import { ignoreRejection } from '../promises.js'
import { costRule, rangeOf, type Cost, type CostRange } from './cost.js'
import type { Quota } from './quota.js'
import type { QuotaList } from './quota-list.js'

/** The quotas of a permit: a name, names, or costs by name; null for that of the definition. */
export type GivenQuotas = string | readonly string[] | Readonly<Record<string, Cost | null>>

/** The costs that a handler gives, by the name of the quota. */
export type GivenCosts = ReadonlyMap<string, CostRange>

/** The quotas that a handler names, in their order, with the costs that it gives. */
export interface NamedQuotas {
  readonly quotas: readonly Quota[]
  readonly costs: GivenCosts
}

/**
 * Returns the quotas that a handler names, with the costs that it gives. Throws an
 * `UnknownQuotaError` or an `OptionError`.
 */
export function namedQuotas (given: unknown, list: QuotaList): NamedQuotas {
  const entries = entriesIn(given)
  const names = entries.map(([name]) => name)
  const quotas = list.allNamed(names, 'quotaAcquire')
  if (quotas.length === 0) {
    throw parameterError('quotas', 'quotaAcquire', 'must contain the name of a quota', given)
  }
  const costs = new Map<string, CostRange>()
  for (const [name, cost] of entries) {
    if (cost !== null) costs.set(name, rangeFor(list.named(name, 'quotaAcquire'), cost))
  }
  return { quotas, costs }
}

/** Returns the names with the cost of each, which is not checked; null if none is given. */
function entriesIn (given: unknown): readonly [name: string, cost: unknown][] {
  if (typeof given === 'string') return [[given, null]]
  if (Array.isArray(given)) return given.map(entryOf)
  if (isPlain(given)) return entriesOf(given)
  ignoreRejection(given)
  const rule = 'must be a name, an array of names, or a plain object with costs by name'
  throw parameterError('quotas', 'quotaAcquire', rule, given, formatType)
}

function entryOf (name: string): [name: string, cost: null] {
  // It is unknown, and reported as such.
  if (typeof name !== 'string') ignoreRejection(name)
  return [name, null]
}

function rangeFor (quota: Quota, cost: unknown): CostRange {
  const parameter = `quotas.${quota.name}`
  if (quota.longestWindow === null) {
    const rule = 'must be null for a quota of concurrent requests, since a place costs 1'
    throw parameterError(parameter, 'quotaAcquire', rule, cost)
  }
  const range = rangeOf(cost)
  if (range === null) {
    ignoreRejection(cost)
    throw parameterError(parameter, 'quotaAcquire', `${costRule}, or null`, cost)
  }
  if (quota.unit === 'requests' && typeof cost !== 'number') {
    const rule = 'must be a number for a quota of requests'
    throw parameterError(parameter, 'quotaAcquire', rule, cost)
  }
  return range
}

/** Throws an `OptionError` if a cost is a function, for which there is no request. */
export function assertNoFunctions ({ quotas, costs }: NamedQuotas): void {
  for (const { name, cost } of quotas) {
    if (typeof cost !== 'function' || costs.has(name)) continue
    const rule = 'must be given, because the cost of the quota is a function of the request'
    throw parameterError(`quotas.${name}`, 'quotaAcquire', rule, undefined)
  }
}
