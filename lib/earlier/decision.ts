import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { Operation } from '../operation.js'

/** What the earlier quota decided about one request; it never holds an address. */
export interface EarlierQuotaDecision {
  readonly outcome: 'admitted' | 'rejected' | 'disabled'
  /** The method of the request, and the operation's path. */
  readonly operation: Operation
  /** The configured limit. */
  readonly limit: number
}

/** A message of the channel `fastify-llm-quota:earlier-decision`. */
export interface EarlierQuotaDecisionMessage {
  readonly request: FastifyRequest
  readonly decision: EarlierQuotaDecision
}

const earlierQuotaDecisions = channel('fastify-llm-quota:earlier-decision')

/** Publishes a decision to whoever has subscribed, to compare it with the governing quota's. */
export function publishEarlierDecision (request: FastifyRequest, decision: EarlierQuotaDecision): void {
  if (earlierQuotaDecisions.hasSubscribers) earlierQuotaDecisions.publish({ request, decision } satisfies EarlierQuotaDecisionMessage)
}
