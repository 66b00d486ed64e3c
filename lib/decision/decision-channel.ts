import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { QuotaDecision } from './decision.js'

/**
 * A message on the decision channel.
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
  /** The request; its `request.quota` holds the same decision. */
  readonly request: FastifyRequest
  /** The decision on the request. */
  readonly decision: QuotaDecision
}

/**
 * The `node:diagnostics_channel` channel on which every decision is published. Its messages are `QuotaDecisionMessage`s. Without a
 * subscriber, publishing has almost no cost.
 *
 * @example
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel'
 * import { quotaDecisions, type QuotaDecisionMessage } from 'fastify-llm-quota'
 *
 * subscribe(quotaDecisions.name, (message) => {
 *   const { decision } = message as QuotaDecisionMessage
 *   if (decision.outcome === 'rejected') console.log('rejected', decision.operation.path, decision.callerKey?.slice(0, 8))
 * })
 * ```
 */
export const quotaDecisions = channel('fastify-llm-quota:decision')

/** Publishes a decision to the subscribers. An error in a subscriber does not change the answer. */
export function publishDecision (request: FastifyRequest, decision: QuotaDecision): void {
  if (quotaDecisions.hasSubscribers) quotaDecisions.publish({ request, decision } satisfies QuotaDecisionMessage)
}
