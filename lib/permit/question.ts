import type { FastifyRequest } from 'fastify'
import type { Caller } from '../caller/request-caller.js'
import { shown } from '../errors.js'
import { logFailure } from '../log.js'
import { ignoreRejection } from '../promises.js'
import type { Acquisition, Demand } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import type { Match } from '../subject/request-matcher.js'
import type { QuotaDecision } from './decision.js'
import type { AmountOf, Quota } from './quota.js'

/** The costs that a handler gives, by quota. */
export type GivenCosts = ReadonlyMap<string, number>

/** One quota of a request whose limit, caller and cost are known. */
export interface Question {
  readonly quota: Quota
  readonly operation: Operation
  readonly limit: number
  /** Null if it was not determined because the limit is 0. */
  readonly caller: Caller | null
  /** What the store is asked for; null if the quota is disabled, has no caller, or if something failed. */
  readonly demand: Demand | null
}

export function questionOf ({ quota, operation }: Match<Quota>, limit: number, caller: Caller | null, request: FastifyRequest, costs: GivenCosts): Question {
  const cost = typeof caller === 'string' ? costOf(quota, request, costs) : null
  if (typeof caller !== 'string' || cost === null) return { quota, operation, limit, caller, demand: null }
  const { counters, longestWindow: window, calendar } = quota
  const end = calendar === null ? null : calendar.endOf(Date.now())
  return { quota, operation, limit, caller, demand: { counters, callerKey: caller, limit, cost: Math.min(cost, limit), window, end } }
}

/** Returns the decision of a quota whose store has answered. */
export function decisionOf ({ quota: { name, unit, window, isEnforced }, operation, limit, caller }: Question, { admitted, count, windowRemaining, end, overflow }: Acquisition): QuotaDecision {
  return {
    outcome: admitted ? 'admitted' : 'rejected',
    quota: name,
    unit,
    window,
    reason: null,
    operation,
    enforced: isEnforced,
    limit,
    callerKey: String(caller),
    count,
    windowRemaining: end === undefined ? windowRemaining : Math.max(1, end - Date.now()),
    overflow
  }
}

/** Returns the decision of a quota whose store was not asked, or has failed. */
export function uncounted ({ quota: { name, unit, window, isEnforced }, operation, limit, caller, demand }: Question): QuotaDecision {
  const base = { quota: name, unit, window, operation, enforced: isEnforced, limit, callerKey: null, count: null, windowRemaining: null, overflow: false }
  if (caller === null) return { ...base, outcome: 'disabled', reason: null }
  if (typeof caller === 'string') return { ...base, outcome: 'unavailable', reason: demand === null ? 'cost' : 'store', callerKey: caller }
  return caller.reason === null ? { ...base, outcome: 'unavailable', reason: 'authentication' } : { ...base, outcome: 'unauthenticated', reason: caller.reason }
}

/** Returns what a request costs, or null if the host's function fails, which is logged. A place always costs 1. */
function costOf (quota: Quota, request: FastifyRequest, costs: GivenCosts): number | null {
  const { longestWindow, name, cost } = quota
  if (longestWindow === null) return 1
  return amountIn(costs.get(name) ?? cost, request, (error) => {
    logFailure(request.log, error, 'the cost of the request could not be determined; the request is not counted', { quota: name })
  })
}

/** Returns an amount that the host states. If its function throws or the amount is invalid, calls `fail` with the error and returns null. */
export function amountIn (amount: AmountOf, request: FastifyRequest, fail: (error: unknown) => void): number | null {
  try {
    const value = typeof amount === 'function' ? amount(request) : amount
    if (isAmount(value)) return value
    ignoreRejection(value)
    throw invalidAmount(value)
  } catch (error) {
    fail(error)
    return null
  }
}

export function isAmount (value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

export function invalidAmount (value: unknown): RangeError {
  return new RangeError(`an amount must be a safe integer of at least 0; it got ${shown(value)}`)
}
