import { quotaDecisions, type QuotaDecisionMessage } from '../channels.js'
import type { QuotaDecision } from './decision.js'
import type { QuotaLog } from './quota-log.js'
import type { Requester } from './requester.js'

/** Publishes and logs the decisions on a request. */
export function publishDecisions (
  decisions: readonly QuotaDecision[],
  requester: Requester,
  log: QuotaLog
): void {
  const { request } = requester
  for (const decision of decisions) {
    if (quotaDecisions.hasSubscribers) {
      quotaDecisions.publish({ request, decision } satisfies QuotaDecisionMessage)
    }
    log.decided(decision, requester)
  }
}
