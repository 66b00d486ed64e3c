import { channel } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Operation } from './operation.js'

/**
 * What the quota decided about one protected request; it never holds an identity.
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
   * `admitted`; `rejected`, at the limit; `unauthenticated`, where nobody can be named; `disabled`, by a limit of 0; or
   * `unavailable`, where the store failed.
   */
  readonly outcome: 'admitted' | 'rejected' | 'unauthenticated' | 'disabled' | 'unavailable'
  /** The protected operation that the request reached. */
  readonly operation: Operation
  /** Whether the request was answered accordingly; false in shadow mode. */
  readonly enforced: boolean
  /** The effective limit; 0 when the quota is off. */
  readonly limit: number
  /** The caller's digest, where one was determined. */
  readonly callerKey: string | null
  /** Requests admitted in the caller's window, this one included when it was admitted; null where no counter was asked. */
  readonly count: number | null
  /** Milliseconds until the caller's window ends; null where no counter was asked. */
  readonly windowRemaining: number | null
  /** Whether the shared overflow counter was asked, because as many callers are tracked as may be. */
  readonly overflow: boolean
}

/**
 * A message of the decisions channel.
 *
 * @example
 * ```ts
 * import type { QuotaDecisionMessage } from 'fastify-llm-quota'
 *
 * // What a subscriber may log about it.
 * export function line ({ request, decision }: QuotaDecisionMessage): string {
 *   return `${request.id} ${decision.outcome} ${decision.count ?? '-'} of ${decision.limit}`
 * }
 * ```
 */
export interface QuotaDecisionMessage {
  /** The request that was decided about; `request.quota` holds the same decision. */
  readonly request: FastifyRequest
  /** What was decided. */
  readonly decision: QuotaDecision
}

declare module 'fastify' {
  interface FastifyRequest {
    /** What the quota decided about this request; null where it is not subject to the quota. */
    quota: QuotaDecision | null
  }
}

/**
 * Every decision, as it is taken: a channel of `node:diagnostics_channel` whose messages are `QuotaDecisionMessage`s.
 * With no subscriber it costs next to nothing.
 *
 * @example
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel'
 * import { quotaDecisions, type QuotaDecisionMessage } from 'fastify-llm-quota'
 *
 * subscribe(quotaDecisions.name, (message) => {
 *   const { decision } = message as QuotaDecisionMessage
 *   if (decision.outcome === 'rejected') console.log('refused', decision.operation.path, decision.callerKey?.slice(0, 8))
 * })
 * ```
 */
export const quotaDecisions = channel('fastify-llm-quota:decision')

/** Publishes a decision to whoever has subscribed. A subscriber that throws changes no answer. */
export function publishDecision (request: FastifyRequest, decision: QuotaDecision): void {
  if (quotaDecisions.hasSubscribers) quotaDecisions.publish({ request, decision } satisfies QuotaDecisionMessage)
}

const kept = Symbol('fastify-llm-quota.decision')

interface Decided { [kept]?: QuotaDecision | null }

/**
 * Decorates requests with `quota`. It is an accessor, since a plain value would not reach the requests of scopes that
 * were there before the decoration.
 */
export function decorateWithDecision (fastify: FastifyInstance): void {
  fastify.decorateRequest<QuotaDecision | null>('quota', {
    getter (this: FastifyRequest & Decided) { return this[kept] ?? null },
    setter (this: FastifyRequest & Decided, decision: QuotaDecision | null) { this[kept] = decision }
  })
}
