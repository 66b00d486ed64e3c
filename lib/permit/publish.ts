import { quotaDecisions, type QuotaDecisionMessage } from '../channels.js'
import type { QuotaDecision } from './decision.js'
import type { Requester } from './requester.js'

/** Publishes the decisions on a request, and logs those that a host may want to know of. */
export function publishDecisions (
  decisions: readonly QuotaDecision[],
  requester: Requester
): void {
  const { request, server } = requester
  const { decisions: decisionsOfServer } = server.channels
  for (const decision of decisions) {
    if (quotaDecisions.hasSubscribers || decisionsOfServer.hasSubscribers) {
      const message = { request, decision } satisfies QuotaDecisionMessage
      quotaDecisions.publish(message)
      decisionsOfServer.publish(message)
    }
    const { outcome, overflow } = decision
    const isUsual = (outcome === 'admitted' || outcome === 'disabled') && !overflow
    if (!isUsual) server.log.decided(decision, request, requester.log)
  }
}
