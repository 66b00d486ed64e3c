import type { FastifyRequest } from 'fastify'
import { quotaDecisions, type QuotaDecisionMessage } from './decision.js'
import type { Verdict } from './decide.js'
import type { Ledger } from './ledger.js'
import { Permit } from './permit.js'

/** Creates the permit of a request, and publishes its decisions. If there is anything to settle, the permit is kept until it ends. */
export function issue (request: FastifyRequest, verdict: Verdict, ledger: Ledger): Permit {
  const permit = new Permit(request, verdict, ledger)
  if (permit.isOpen) ledger.opened(permit)
  for (const decision of permit.decisions) {
    if (quotaDecisions.hasSubscribers) quotaDecisions.publish({ request, decision } satisfies QuotaDecisionMessage)
    ledger.decisions.add(decision, request)
  }
  return permit
}
