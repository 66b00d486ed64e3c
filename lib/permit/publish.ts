import { publishOn, quotaDecisions, type QuotaDecisionMessage } from '../channels.js'
import type { QuotaDecision } from './decision.js'
import type { Requester } from './requester.js'

/** Publishes the decisions on a request, and logs those that a host may want to know of. */
export function publishDecisions (
  decisions: readonly QuotaDecision[],
  requester: Requester
): void {
  const { request, server } = requester
  for (const decision of decisions) {
    publishOn(quotaDecisions, server.channels.decisions, (): QuotaDecisionMessage => {
      return { request, decision }
    })
    const { outcome, overflow } = decision
    const isUsual = (outcome === 'admitted' || outcome === 'disabled') && !overflow
    if (!isUsual) server.log.decided(decision, request, requester.log)
  }
}
