import type { FastifyRequest } from 'fastify'
import { Unidentified } from '../caller/caller-key.js'
import { QuotaNameError, shown, shownError, StandingError } from '../errors.js'
import type { QuotaUnit } from '../limit/limit.js'
import { assertEntry, assertPeeked, type QuotaCount } from '../store/store.js'
import { defaultQuota } from '../subject/mark.js'
import type { Quota } from './quota.js'

/** The standing of a request's caller in a quota. */
export interface QuotaStanding {
  /** The name of the quota. */
  readonly quota: string
  /** What the quota counts. */
  readonly unit: QuotaUnit
  /** The length of the window, in milliseconds; null for requests in flight. */
  readonly window: number | null
  /** The effective limit; 0 if the quota is disabled. */
  readonly limit: number
  /** What is counted in the caller's window or in flight; 0 if no window is open. */
  readonly count: number
  /** How much more would be admitted now; null if the limit is 0. */
  readonly remaining: number | null
  /** Milliseconds until the caller's window ends; null if no window is open, in which case the next request opens one. */
  readonly windowRemaining: number | null
  /** Whether the caller would be counted on the shared overflow counter because the caller cap is reached. */
  readonly overflow: boolean
}

/**
 * Returns the standing of a request's caller without counting the request.
 *
 * @param request The request of the caller. It does not have to be subject to a quota.
 * @param name The name of the quota. Default `default`.
 * @returns The standing; null if there is no caller, in which case a protected request would be answered with 401.
 * @throws {QuotaNameError} `FST_ERR_LLM_QUOTA_NAME`, if there is no quota with that name.
 * @throws {StandingError} `FST_ERR_LLM_QUOTA_STANDING`, with status 503, if the store fails or has no `peek`, or if the authentication
 *   fails with a `statusCode` of 500 or more. The error itself is logged.
 */
export type QuotaStandingReader = (request: FastifyRequest, name?: string) => Promise<QuotaStanding | null>

const noWindow = { count: 0, windowRemaining: null, overflow: false }

/** Creates the function for the decorator `fastify.quotaStanding`. */
export function createStandingReader (quotas: readonly Quota[]): QuotaStandingReader {
  return async function quotaStanding (request, name = defaultQuota) {
    const quota = quotas.find((quota) => quota.name === name)
    if (quota === undefined) throw new QuotaNameError(shown(name), quotas.map(({ name }) => name).join(', '))
    const { unit, window } = quota
    const caller = await quota.callerOf(request)
    if (caller instanceof Unidentified) {
      if (caller.reason === null) throw new StandingError()
      return null
    }
    const limit = await quota.limitOf(request)
    const { count, windowRemaining, overflow } = await countOf(quota, caller, request)
    return { quota: name, unit, window, limit, count, remaining: limit === 0 ? null : Math.max(0, limit - count), windowRemaining, overflow }
  }
}

async function countOf (quota: Quota, callerKey: string, request: FastifyRequest): Promise<QuotaCount | typeof noWindow> {
  try {
    return quota.window === null ? await inFlight(quota, callerKey) : await inWindow(quota, callerKey)
  } catch (error) {
    request.log.error({ err: shownError(error), quota: quota.name }, 'the quota store failed; the standing of the caller is unknown')
    throw new StandingError()
  }
}

async function inFlight ({ store }: Quota, callerKey: string): Promise<typeof noWindow> {
  const entry = await store.enter?.(callerKey, 0)
  assertEntry(entry)
  return { ...noWindow, count: entry.count }
}

async function inWindow ({ store }: Quota, callerKey: string): Promise<QuotaCount | typeof noWindow> {
  if (store.peek === undefined) throw new TypeError('the quota store has no function peek')
  const peeked = await store.peek(callerKey)
  assertPeeked(peeked)
  return peeked ?? noWindow
}
