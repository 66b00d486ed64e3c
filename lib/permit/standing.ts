import type { FastifyRequest } from 'fastify'
import type { AnyRequest } from '../any-request.js'
import { Unidentified } from '../caller/caller-key.js'
import { StandingError } from '../errors.js'
import { logFailure } from '../log.js'
import { assertPeeked, type QuotaCount } from '../store/store.js'
import { defaultQuota } from '../subject/mark.js'
import type { CountedDecision } from './decision.js'
import { demandOn, timeLeft, type Quota, type QuotaList } from './quota.js'

/**
 * The standing of a request's caller in a quota. The next request opens a window if none is open.
 */
export interface QuotaStanding extends Pick<
  CountedDecision,
  'unit' | 'window' | 'limit' | 'windowRemaining' | 'overflow'
> {
  /** The name of the quota. */
  readonly quota: string
  /** What is counted in the caller's window or in flight; 0 if no window is open. */
  readonly count: number
  /** How much is left of the limit; null if the limit is 0. */
  readonly remaining: number | null
}

/**
 * Returns the standing of a request's caller without counting the request.
 *
 * @param request The request of the caller. It does not have to be subject to a quota.
 * @param name The name of the quota. Default `default`.
 * @returns The standing; null if there is no caller, in which case the response to a protected
 *   request would be a 401.
 * @throws {UnknownQuotaError} `FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA`, if there is no quota with that
 *   name.
 * @throws {StandingError} `FST_ERR_LLM_QUOTA_STANDING`, with status 503, if the store fails or has
 *   no `peek`, or if the authentication fails with a `statusCode` of 500 or more. The error itself
 *   is logged.
 */
export type QuotaStandingReader = {
  /** Reads the standing. */
  method(request: AnyRequest, name?: string): Promise<QuotaStanding | null>
}['method']

const noWindow: QuotaCount = { count: 0, windowRemaining: null, overflow: false }

/** Creates the function for the decorator `fastify.quotaStanding`. */
export function createStandingReader (quotas: QuotaList): QuotaStandingReader {
  return async function quotaStanding (request: FastifyRequest, name = defaultQuota) {
    const quota = quotas.named(name, 'quotaStanding')
    const caller = await quota.callerOf(request)
    if (caller instanceof Unidentified) {
      if (caller.reason === null) throw new StandingError()
      return null
    }
    const limit = await quota.limitOf(request)
    const counted = await countOf(quota, caller, request)
    const { unit, window } = quota
    const { count, overflow } = counted
    const remaining = limit === 0 ? null : Math.max(0, limit - count)
    return {
      quota: name,
      unit,
      window,
      limit,
      count,
      remaining,
      windowRemaining: timeLeft(counted),
      overflow
    }
  }
}

async function countOf (
  quota: Quota,
  callerKey: string,
  request: FastifyRequest
): Promise<QuotaCount> {
  const { name, store } = quota
  try {
    if (store.peek === undefined) throw new TypeError('the quota store has no function peek')
    const demand = demandOn(quota, callerKey, 1, 0)
    const peeked = await store.peek(demand)
    assertPeeked(peeked, demand)
    return peeked ?? noWindow
  } catch (error) {
    logFailure(
      request.log,
      error,
      'the quota store failed; the standing of the caller is unknown',
      { quota: name }
    )
    throw new StandingError()
  }
}
