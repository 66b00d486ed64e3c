import type { UnidentifiedReason } from '../caller/unidentified.js'
import type { Operation } from '../subject/operation.js'

/**
 * The decision of the quota on a protected request. It never contains an identity.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { localAuthentication, type QuotaDecision } from 'fastify-llm-quota'
 *
 * const app = Fastify()
 * await app.register(quotaPlugin, { perMinute: 2, authentication: () => localAuthentication('alice') })
 * app.post('/api/analyze', async (request) => left(request.quota))
 *
 * // How many requests the caller has left in its window.
 * function left (decision: QuotaDecision | null): number | null {
 *   return decision === null || decision.count === null ? null : decision.limit - decision.count
 * }
 *
 * console.log((await app.inject({ method: 'POST', url: '/api/analyze' })).json()) // 1
 * ```
 */
export interface QuotaDecision {
  /**
   * `admitted`; `rejected` if the caller is at the limit; `unauthenticated` if there is no caller key; `disabled` if the limit is
   * 0; `unavailable` if the store failed.
   */
  readonly outcome: 'admitted' | 'rejected' | 'unauthenticated' | 'disabled' | 'unavailable'
  /** The name of the quota: `default`, or a key of the option `quotas`. */
  readonly quota: string
  /** Why there is no caller key, in an `unauthenticated` decision; otherwise null. */
  readonly reason: UnidentifiedReason | null
  /** The protected operation that the request reached. */
  readonly operation: Operation
  /** Whether the decision determined the answer; false in shadow mode. */
  readonly enforced: boolean
  /** The effective limit; 0 if the quota is disabled. */
  readonly limit: number
  /** The caller's digest; null if none was determined. */
  readonly callerKey: string | null
  /** Requests admitted in the caller's window, including this one if it was admitted; null if no counter was used. */
  readonly count: number | null
  /** Milliseconds until the caller's window ends; null if no counter was used. */
  readonly windowRemaining: number | null
  /** Whether the shared overflow counter was used because the caller cap is reached. */
  readonly overflow: boolean
}
