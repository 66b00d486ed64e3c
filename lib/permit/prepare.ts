import type { FastifyBaseLogger } from 'fastify'
import { Unidentified } from '../caller/caller-key.js'
import { callerOfAuthentication, type Caller } from '../caller/request-caller.js'
import { format } from '../errors.js'
import { logFailure } from '../log.js'
import { ignoreRejection } from '../promises.js'
import { required } from '../required.js'
import type { Demand } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import { costRule, rangeOf, type CostRange } from './cost.js'
import { uncounted, type OutcomeWithoutStore, type QuotaDecision } from './decision.js'
import { demandOn } from './demand.js'
import type { Quota } from './quota.js'
import { requestFor, type Requester } from './requester.js'

/** A quota of a request, and the operation that it reaches; null if there is no request. */
export interface QuotaOfRequest {
  readonly quota: Quota
  readonly operation: Operation | null
}

/** The costs that a handler gives, by the name of the quota. */
export type GivenCosts = ReadonlyMap<string, CostRange>

/** A quota of a request whose store is to be asked. */
export interface Demanded extends QuotaOfRequest {
  readonly caller: Caller
  readonly demand: Demand
  readonly decision: null
}

/** A quota of a request that is decided on without its store. */
export interface DecidedWithoutStore extends QuotaOfRequest {
  readonly caller: null
  readonly demand: null
  readonly decision: QuotaDecision
}

/** A quota of a request when everything but the store has been asked. */
export type Prepared = Demanded | DecidedWithoutStore

/** Reads the limits of a request in its quotas. Some are promises if a reader returned them. */
export function readLimits (
  quotas: readonly QuotaOfRequest[],
  { request }: Requester
): (number | Promise<number>)[] {
  const limits: (number | Promise<number>)[] = []
  for (const { quota } of quotas) limits.push(quota.limitOf(request ?? undefined))
  return limits
}

/** A caller, why there is none, or null if the limit is 0, so that it does not matter. */
type ReadCaller = Caller | Unidentified | null

/**
 * Reads the callers of a request in its quotas. Each reader is asked once, whichever quotas share
 * it.
 */
export function readCallers (
  quotas: readonly QuotaOfRequest[],
  limits: readonly number[],
  requester: Requester
): (ReadCaller | Promise<ReadCaller>)[] {
  const callers: (ReadCaller | Promise<ReadCaller>)[] = []
  for (const [index, { quota }] of quotas.entries()) {
    const isDisabled = limits[index] === 0
    callers.push(isDisabled ? null : readCaller(quota, quotas, callers, requester))
  }
  return callers
}

function readCaller (
  quota: Quota,
  quotas: readonly QuotaOfRequest[],
  known: readonly (ReadCaller | Promise<ReadCaller>)[],
  requester: Requester
): ReadCaller | Promise<ReadCaller> {
  for (const [index, caller] of known.entries()) {
    if (caller !== null && quotas[index]?.quota.callers === quota.callers) return caller
  }
  const { request } = requester
  return request === null ? callerWithoutRequest(requester) : quota.callers.read(request)
}

function callerWithoutRequest ({ authentication, log }: Requester): Caller | Unidentified {
  try {
    return callerOfAuthentication(authentication)
  } catch (error) {
    // A getter of the claims threw.
    logFailure(log, error, 'the authentication could not be read; it has no caller')
    return new Unidentified('no-authentication')
  }
}

/**
 * Determines what the stores of the quotas are asked (docs/rules.md, "Decision"): the cost of the
 * request and the end of the window. Never throws.
 */
export function prepare (
  quotas: readonly QuotaOfRequest[],
  limits: readonly number[],
  callers: readonly ReadCaller[],
  requester: Requester,
  costs: GivenCosts | null
): readonly Prepared[] {
  const prepared: Prepared[] = []
  for (const [index, reached] of quotas.entries()) {
    const limit = required(limits[index], 'a limit')
    const caller = callers[index] ?? null
    prepared.push(prepareQuota(reached, limit, caller, requester, costs))
  }
  return prepared
}

/** @param caller Null if the limit is 0. */
function prepareQuota (
  reached: QuotaOfRequest,
  limit: number,
  caller: ReadCaller,
  requester: Requester,
  costs: GivenCosts | null
): Prepared {
  if (caller === null) {
    return withoutStore(reached, limit, { outcome: 'disabled', reason: null, callerKey: null })
  }
  if (caller instanceof Unidentified) return withoutStore(reached, limit, withoutCaller(caller))
  const cost = costOf(reached.quota, requester, costs)
  if (cost !== null) return prepareDemand(reached, caller, limit, cost, requester.log)
  const { callerKey } = caller
  return withoutStore(reached, limit, { outcome: 'unavailable', reason: 'cost', callerKey })
}

/** Returns what the store of a quota is asked, or the decision if the time zone fails. */
export function prepareDemand (
  { quota, operation }: QuotaOfRequest,
  caller: Caller,
  limit: number,
  cost: CostRange,
  log: FastifyBaseLogger
): Prepared {
  try {
    const demand = demandOn(quota, caller, limit, cost)
    return { quota, operation, caller, demand, decision: null }
  } catch (error) {
    const message = "the caller's time zone could not be determined; the request is not counted"
    logFailure(log, error, message, { quota: quota.name })
    const { callerKey } = caller
    const outcome = { outcome: 'unavailable', reason: 'time-zone', callerKey } as const
    return withoutStore({ quota, operation }, limit, outcome)
  }
}

/** Returns the range of a request's cost; null if the host's function fails, which is logged. */
function costOf (
  quota: Quota,
  requester: Requester,
  costs: GivenCosts | null
): CostRange | null {
  const given = costs?.get(quota.name) ?? quota.cost
  if (typeof given !== 'function') return given
  try {
    const cost: unknown = given(requestFor('cost', requester))
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

function withoutStore (
  { quota, operation }: QuotaOfRequest,
  limit: number,
  outcome: OutcomeWithoutStore
): DecidedWithoutStore {
  const decision = uncounted(quota, operation, limit, outcome)
  return { quota, operation, caller: null, demand: null, decision }
}
