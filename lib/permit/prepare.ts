import type { OfRequest } from '../any-request.js'
import { Unidentified } from '../caller/caller-key.js'
import type { Caller } from '../caller/request-caller.js'
import { format } from '../errors.js'
import { logFailure } from '../log.js'
import { ignoreRejection, then, type Eventual } from '../promises.js'
import { required } from '../required.js'
import { unlimited } from '../store/counter.js'
import type { Demand } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import { costRule, rangeOf, type Cost, type CostRange } from './cost.js'
import type { OutcomeWithoutStore } from './decision.js'
import type { GivenCosts } from './given-costs.js'
import type { Quota } from './quota.js'
import { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'

/** A quota of a request, and the operation that it reaches; null if there is no request. */
export interface MatchedQuota {
  readonly quota: Quota
  readonly operation: Operation | null
}

/**
 * Determines what the store of each quota is asked for (docs/rules.md, "Decision"), or the decision
 * if its store need not be asked. Neither throws nor rejects.
 *
 * @param costs What a handler gives in place of the costs of the definitions.
 */
export function prepare (
  matches: readonly MatchedQuota[],
  requester: Requester,
  costs: GivenCosts | null
): Eventual<readonly QuotaOfRequest[]> {
  const quotas: QuotaOfRequest[] = []
  const waiting: Promise<void>[] = []
  for (const { quota, operation } of matches) {
    const each = new QuotaOfRequest(quota, operation)
    quotas.push(each)
    const prepared = prepareQuota(each, requester, costs)
    if (prepared instanceof Promise) waiting.push(prepared)
  }
  return waiting.length === 0 ? quotas : Promise.all(waiting).then(() => quotas)
}

function prepareQuota (
  each: QuotaOfRequest,
  requester: Requester,
  costs: GivenCosts | null
): Eventual<void> {
  const { quota } = each
  if (!quota.isLimitOfCaller) return prepareLimit(each, null, requester, costs)
  return then(requester.callerOf(quota.callers), (caller) =>
    caller instanceof Unidentified
      ? each.decideWithout(withoutCaller(caller))
      : prepareLimit(each, caller, requester, costs)
  )
}

/**
 * Reads the limit and, unless the quota is disabled, the caller and the cost.
 *
 * @param known The caller, if the limit is a function of it, and was therefore read first.
 */
function prepareLimit (
  each: QuotaOfRequest,
  known: Caller | null,
  requester: Requester,
  costs: GivenCosts | null
): Eventual<void> {
  const { quota } = each
  return then(quota.limitOf(requester.request, known, requester.log), (limit) => {
    if (limit === 'failed') {
      const { callerKey } = required(known, 'the caller of a limit that is a function')
      return each.decideWithout({ outcome: 'unavailable', reason: 'limit', callerKey })
    }
    if (limit === 'disabled') {
      return each.decideWithout({ outcome: 'disabled', reason: null, callerKey: null })
    }
    each.limit = limit
    return then(known ?? requester.callerOf(quota.callers), (caller) =>
      caller instanceof Unidentified
        ? each.decideWithout(withoutCaller(caller))
        : prepareCost(each, caller, requester, costs)
    )
  })
}

function prepareCost (
  each: QuotaOfRequest,
  caller: Caller,
  requester: Requester,
  costs: GivenCosts | null
): void {
  each.caller = caller
  const { quota } = each
  const given = costs?.get(quota.name) ?? quota.cost
  const cost = typeof given === 'function' ? costIn(given, quota, requester) : given
  if (cost === null) {
    const { callerKey } = caller
    each.decideWithout({ outcome: 'unavailable', reason: 'cost', callerKey })
  } else {
    prepareDemand(each, caller, cost, requester)
  }
}

/** Determines what the store is asked for, or the decision if the time zone fails. */
export function prepareDemand (
  each: QuotaOfRequest,
  caller: Caller,
  cost: CostRange,
  { log }: Requester
): void {
  try {
    each.demand = demandOn(each.quota, caller, each.limit, cost)
  } catch (error) {
    const message = "the caller's time zone could not be determined; the request is not counted"
    logFailure(log, error, message, { quota: each.quota.name })
    const { callerKey } = caller
    each.decideWithout({ outcome: 'unavailable', reason: 'time-zone', callerKey })
  }
}

/** Returns what a quota asks its store for. Throws if the time zone cannot be determined. */
export function demandOn (quota: Quota, caller: Caller, limit: number, cost: CostRange): Demand {
  const day = quota.windowNow === null ? null : quota.windowNow(caller)
  return {
    counters: quota.counters,
    callerKey: caller.callerKey,
    limit: Math.min(limit, unlimited),
    least: cost.least,
    most: cost.most,
    isEstimate: quota.unit !== 'requests',
    window: quota.longestWindow,
    start: day === null ? null : day.start,
    end: day === null ? null : day.end
  }
}

/** Returns the cost of a request; null if the host's function fails, which is logged. */
function costIn (
  read: OfRequest<Cost>,
  quota: Quota,
  requester: Requester
): CostRange | null {
  try {
    const cost: unknown = read(required(requester.request, 'the request of a cost'))
    const range = rangeOf(cost)
    if (range !== null && (quota.unit !== 'requests' || typeof cost === 'number')) return range
    ignoreRejection(cost)
    throw new RangeError(`a cost ${costRule}; it got ${format(cost)}`)
  } catch (error) {
    const message = 'the cost of the request could not be determined; the request is not counted'
    logFailure(requester.log, error, message, { quota: quota.name })
    return null
  }
}

function withoutCaller ({ reason }: Unidentified): OutcomeWithoutStore {
  return reason === null
    ? { outcome: 'unavailable', reason: 'authentication', callerKey: null }
    : { outcome: 'unauthenticated', reason, callerKey: null }
}
