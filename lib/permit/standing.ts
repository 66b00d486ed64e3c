import type { FastifyBaseLogger } from 'fastify'
import { isRequest, type AnyRequest } from '../any-request.js'
import { isAuthentication, type Authentication } from '../caller/authentication.js'
import { Unidentified } from '../caller/caller-key.js'
import type { Caller } from '../caller/request-caller.js'
import { StandingError, formatType, parameterError } from '../errors.js'
import { logFailure } from '../log.js'
import { assertPeeked } from '../store/result-checks.js'
import type { Demand, QuotaCount } from '../store/store.js'
import { defaultQuota } from '../subject/mark.js'
import { wallClock } from '../wall-clock.js'
import type { CountedDecision } from './decision.js'
import { timeLeft } from './decide.js'
import { demandOf, prepare } from './prepare.js'
import type { QuotaList } from './quota-list.js'
import { QuotaOfRequest } from './quota-of-request.js'
import { Requester, type PermitServer } from './requester.js'

/** The standing of a caller in a quota. If no window is open, the next request opens one. */
export interface QuotaStanding extends Pick<
  CountedDecision,
  'unit' | 'period' | 'window' | 'limit' | 'windowRemaining' | 'overflow'
> {
  /** The name of the quota. */
  readonly quota: string
  /** What is counted: in the caller's window, or at the same time; 0 if no window is open. */
  readonly count: number
  /** The part of the count that requests in progress hold. */
  readonly held: number
  /** How much is left of the limit; null if the quota is disabled or its limit is `Infinity`. */
  readonly remaining: number | null
  /**
   * When the window ends, in milliseconds since the epoch. Null for concurrent requests and if no
   * window is open, except for the days, weeks and months of a time zone.
   */
  readonly resetsAt: number | null
}

/**
 * Returns the standing of a caller without counting anything.
 *
 * @param source The request of the caller, which does not have to be subject to a quota; or the
 *   authentication of the caller whom the quota counts.
 * @param name The name of the quota. Default `default`, even if that quota protects nothing.
 * @returns The standing; null if there is no caller, in which case the response to a protected
 *   request would be a 401.
 * @throws {UnknownQuotaError} `FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA`, if there is no quota with that
 *   name.
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if the value is neither a request nor an
 *   authentication.
 * @throws {StandingError} `FST_ERR_LLM_QUOTA_STANDING`, with status 503, if the store fails or has
 *   no `peek`, or if the authentication, the limit or the time zone of the caller fails. The error
 *   itself is logged.
 */
export type QuotaStandingReader = {
  /** Reads the standing. */
  method(source: AnyRequest | Authentication, name?: string): Promise<QuotaStanding | null>
}['method']

/** The cost with which a counter is looked at. */
const costOfLooking = { least: 1, most: 1 }

/** Creates the function for the decorator `fastify.quotaStanding`. */
export function createStandingReader (
  quotas: QuotaList,
  server: PermitServer,
  log: FastifyBaseLogger
): QuotaStandingReader {
  return async function quotaStanding (source: unknown, name = defaultQuota) {
    const quota = quotas.named(name, 'quotaStanding')
    const requester = requesterOf(source, server, log)
    const caller = await requester.callerOf(quota)
    if (caller instanceof Unidentified) {
      if (caller.reason === null) throw new StandingError()
      return null
    }
    const each = new QuotaOfRequest(quota, null, null, costOfLooking)
    await prepare([each], requester)
    const isDisabled = each.decision?.outcome === 'disabled'
    if (each.decision !== null && !isDisabled) throw new StandingError()
    const { counted, demand } = await readCount(each, caller, requester)
    const windowRemaining = counted === null ? null : timeLeft(counted, each.calendarWindow)
    const count = counted?.count ?? 0
    const { limit } = each
    return {
      quota: name,
      unit: quota.unit,
      period: quota.period,
      window: quota.window,
      limit,
      count,
      held: counted?.held ?? 0,
      remaining: isDisabled || limit === Infinity ? null : Math.max(0, limit - count),
      windowRemaining,
      resetsAt: resetOf(demand, windowRemaining),
      overflow: counted?.overflow ?? false
    }
  }
}

function requesterOf (source: unknown, server: PermitServer, log: FastifyBaseLogger): Requester {
  const nothing = { request: null, callers: null, log, response: null }
  if (isAuthentication(source)) return new Requester(server, { ...nothing, callers: source })
  if (isRequest(source)) {
    return new Requester(server, { ...nothing, request: source, log: source.log })
  }
  const rule = 'must be a request, or an authentication that this package created'
  throw parameterError('source', 'quotaStanding', rule, source, formatType)
}

/** @param windowRemaining Null if no window is open. The days of a time zone end all the same. */
function resetOf ({ end }: Demand, windowRemaining: number | null): number | null {
  if (windowRemaining === null) return end
  return Math.round(wallClock() + windowRemaining)
}

async function readCount (
  each: QuotaOfRequest,
  caller: Caller,
  { log }: Requester
): Promise<{ counted: QuotaCount | null; demand: Demand }> {
  const { store, name } = each.quota
  try {
    if (store.peek === undefined) throw new TypeError('the quota store has no function peek')
    const demand = each.demand ?? demandOf(each, caller, costOfLooking)
    const counted = await store.peek(demand)
    assertPeeked(counted, demand)
    return { counted, demand }
  } catch (error) {
    logFailure(log, error, 'the standing of the caller could not be read', { quota: name })
    throw new StandingError()
  }
}
