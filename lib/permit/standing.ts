import type { FastifyRequest } from 'fastify'
import { assertRequest, type AnyRequest } from '../any-request.js'
import { Unidentified } from '../caller/caller-key.js'
import type { Caller } from '../caller/request-caller.js'
import { StandingError } from '../errors.js'
import { logFailure } from '../log.js'
import { assertPeeked } from '../store/checks.js'
import type { Demand, QuotaCount } from '../store/store.js'
import { defaultQuota } from '../subject/mark.js'
import { wallClock } from '../wall-clock.js'
import type { CountedDecision } from './decision.js'
import { timeLeft } from './decide.js'
import { demandOn } from './prepare.js'
import type { QuotaList } from './quota-list.js'
import type { Quota } from './quota.js'

/**
 * The standing of a request's caller in a quota. If no window is open, the next request opens one.
 */
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
  /** How much is left of the limit; null if the quota is disabled, or its limit is `Infinity`. */
  readonly remaining: number | null
  /**
   * When the window ends, in milliseconds since the epoch. Null for concurrent requests and if no
   * window is open, except for the days, weeks and months of a time zone.
   */
  readonly resetsAt: number | null
}

/**
 * Returns the standing of a request's caller without counting the request.
 *
 * @param request The request of the caller. It does not have to be subject to a quota.
 * @param name The name of the quota. Default `default`, even if that quota protects nothing.
 * @returns The standing; null if there is no caller, in which case the response to a protected
 *   request would be a 401.
 * @throws {UnknownQuotaError} `FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA`, if there is no quota with that
 *   name.
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if the value is not a request.
 * @throws {StandingError} `FST_ERR_LLM_QUOTA_STANDING`, with status 503, if the store fails or has
 *   no `peek`, if the limit or the time zone of the caller fails, or if the authentication fails
 *   with a `statusCode` of 500 or more. The error itself is logged.
 */
export type QuotaStandingReader = {
  /** Reads the standing. */
  method(request: AnyRequest, name?: string): Promise<QuotaStanding | null>
}['method']

/** Creates the function for the decorator `fastify.quotaStanding`. */
export function createStandingReader (quotas: QuotaList): QuotaStandingReader {
  return async function quotaStanding (request: FastifyRequest, name = defaultQuota) {
    const quota = quotas.named(name, 'quotaStanding')
    assertRequest(request)
    const caller = await quota.callers.read(request)
    if (caller instanceof Unidentified) {
      if (caller.reason === null) throw new StandingError()
      return null
    }
    const read = await quota.limitOf(request, caller, request.log)
    if (read === 'failed') throw new StandingError()
    const limit = read === 'disabled' ? 0 : read
    const { counted, demand } = await readCount(quota, caller, request)
    const windowRemaining = counted === null ? null : timeLeft(counted, demand)
    const count = counted?.count ?? 0
    return {
      quota: name,
      unit: quota.unit,
      period: quota.period,
      window: quota.window,
      limit,
      count,
      held: counted?.held ?? 0,
      remaining: read === 'disabled' || limit === Infinity ? null : Math.max(0, limit - count),
      windowRemaining,
      resetsAt: resetOf(demand, windowRemaining),
      overflow: counted?.overflow ?? false
    }
  }
}

/** @param windowRemaining Null if no window is open. The days of a time zone end all the same. */
function resetOf ({ end }: Demand, windowRemaining: number | null): number | null {
  if (windowRemaining === null) return end
  return Math.round(wallClock() + windowRemaining)
}

async function readCount (
  quota: Quota,
  caller: Caller,
  request: FastifyRequest
): Promise<{ counted: QuotaCount | null; demand: Demand }> {
  const { name, store } = quota
  try {
    if (store.peek === undefined) throw new TypeError('the quota store has no function peek')
    const demand = demandOn(quota, caller, 1, { least: 1, most: 1 })
    const counted = await store.peek(demand)
    assertPeeked(counted, demand)
    return { counted, demand }
  } catch (error) {
    const message = 'the standing of the caller could not be read'
    logFailure(request.log, error, message, { quota: name })
    throw new StandingError()
  }
}
