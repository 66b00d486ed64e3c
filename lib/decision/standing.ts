import type { FastifyRequest } from 'fastify'
import { QuotaNameError, shown, shownError, StandingError } from '../errors.js'
import { Unidentified } from '../caller/unidentified.js'
import { effectiveLimit } from '../limit/limit.js'
import { assertPeeked, type QuotaCount } from '../store/store.js'
import type { Quota } from './quota.js'

/**
 * The standing of a request's caller in a quota.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { localAuthentication, type QuotaStanding } from 'fastify-llm-quota'
 *
 * const app = Fastify()
 * await app.register(quotaPlugin, { perMinute: 3, authentication: () => localAuthentication('alice') })
 * app.post('/api/analyze', async () => 'from your model')
 * app.get('/api/quota', async (request): Promise<QuotaStanding | null> => app.quotaStanding(request))
 *
 * await app.inject({ method: 'POST', url: '/api/analyze' })
 * const { limit, count, remaining } = (await app.inject('/api/quota')).json()
 * console.log(limit, count, remaining) // 3 1 2
 * ```
 */
export interface QuotaStanding {
  /** The name of the quota. */
  readonly quota: string
  /** The effective limit; 0 if the quota is disabled. */
  readonly limit: number
  /** Requests admitted in the caller's window; 0 if no window is open. */
  readonly count: number
  /** The number of further requests that would be admitted in this window; null if the limit is 0. */
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
 * @throws {StandingError} `FST_ERR_LLM_QUOTA_STANDING`, with status 503, if the store fails. The store's own error is logged.
 *
 * @example
 * ```ts
 * import type { FastifyRequest } from 'fastify'
 * import type { QuotaStandingReader } from 'fastify-llm-quota'
 *
 * // Returns how many more requests a caller may send; null if there is no caller or no limit.
 * export async function remaining (quotaStanding: QuotaStandingReader, request: FastifyRequest): Promise<number | null> {
 *   return (await quotaStanding(request))?.remaining ?? null
 * }
 * ```
 */
export type QuotaStandingReader = (request: FastifyRequest, name?: string) => Promise<QuotaStanding | null>

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns the standing of a request's caller without counting the request. */
    quotaStanding: QuotaStandingReader
  }
}

const noWindow = { count: 0, windowRemaining: null, overflow: false }

/** Creates the function for the decorator `fastify.quotaStanding`. */
export function createStandingReader (quotas: ReadonlyMap<string, Quota>): QuotaStandingReader {
  return async function quotaStanding (request, name = 'default') {
    const quota = quotas.get(name)
    if (quota === undefined) throw new QuotaNameError(shown(name), [...quotas.keys()].join(', '))
    const caller = await quota.callerOf(request, quota.keySuffix)
    if (caller instanceof Unidentified) return null
    const limit = effectiveLimit(await quota.limits.read(request))
    const { count, windowRemaining, overflow } = await standing(quota, caller, request)
    return { quota: name, limit, count, remaining: limit === 0 ? null : Math.max(0, limit - count), windowRemaining, overflow }
  }
}

async function standing ({ store, name }: Quota, callerKey: string, request: FastifyRequest): Promise<QuotaCount | typeof noWindow> {
  try {
    const peeked = await store.peek!(callerKey)
    assertPeeked(peeked)
    return peeked ?? noWindow
  } catch (error) {
    request.log.error({ err: shownError(error), quota: name }, 'the quota store failed; the standing of the caller is unknown')
    throw new StandingError()
  }
}
