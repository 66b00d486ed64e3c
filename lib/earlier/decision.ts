import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { Operation } from '../subject/operation.js'

/** The decision of the earlier quota on one request. It never contains an address. */
export interface EarlierQuotaDecision {
  /** The outcome; `disabled` if the limit is 0 or negative. */
  readonly outcome: 'admitted' | 'rejected' | 'disabled'
  /** The method of the request, and the operation's path. */
  readonly operation: Operation
  /** The configured limit. */
  readonly limit: number
}

/** A message on the `node:diagnostics_channel` channel `fastify-llm-quota:earlier-decision`. */
export interface EarlierQuotaDecisionMessage {
  /** The request. */
  readonly request: FastifyRequest
  /** The decision on the request. */
  readonly decision: EarlierQuotaDecision
}

const earlierQuotaDecisions = channel('fastify-llm-quota:earlier-decision')

/** Publishes a decision, so that it can be compared with the decision of the current quota. */
export function publishEarlierDecision (request: FastifyRequest, decision: EarlierQuotaDecision): void {
  if (earlierQuotaDecisions.hasSubscribers) earlierQuotaDecisions.publish({ request, decision } satisfies EarlierQuotaDecisionMessage)
}
