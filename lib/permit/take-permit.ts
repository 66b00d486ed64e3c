import { then, type Eventual } from '../promises.js'
import type { Operation } from '../subject/operation.js'
import { ask } from './ask.js'
import { decide, publishDecisions, refusalAmong } from './decide.js'
import { uncounted, type QuotaDecision } from './decision.js'
import type { GivenCosts } from './given-costs.js'
import { Permit } from './permit.js'
import { prepare, type MatchedQuota } from './prepare.js'
import type { Quota } from './quota.js'
import type { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'

/**
 * Decides on a request (docs/rules.md, "Decision"): determines the limits, callers and costs, asks
 * the stores, and publishes the decisions. A promise only if something of the host's returned one.
 * Neither throws nor rejects.
 *
 * @param matches The quotas of the request, in their order.
 * @param costs What a handler gives in place of the costs of the definitions.
 * @param hasResponded Whether the host has responded in the meantime, so that no store is asked.
 */
export function takePermit (
  matches: readonly MatchedQuota[],
  requester: Requester,
  costs: GivenCosts | null,
  hasResponded = (): boolean => false
): Eventual<Permit> {
  const permit = then(prepare(matches, requester, costs), (quotas) => {
    if (hasResponded()) return new Permit(requester, [], null, [])
    return then(ask(quotas, requester), () => permitFor(quotas, requester))
  })
  // A server that closes waits for the decision, which can count something that must be settled.
  if (permit instanceof Promise) requester.server.closing.waitFor(permit)
  return permit
}

function permitFor (quotas: readonly QuotaOfRequest[], requester: Requester): Permit {
  decide(quotas)
  const refusal = refusalAmong(quotas)
  const decisions: QuotaDecision[] = []
  for (const { decision } of quotas) {
    if (decision !== null && (refusal === null || decision === refusal)) decisions.push(decision)
  }
  const permit = new Permit(requester, quotas, refusal, decisions)
  publishDecisions(decisions, requester)
  return permit
}

/** Decides on a request whose mark failed: refuses it, unless all quotas are in shadow mode. */
export function refuseUnmatched (
  quotas: readonly Quota[],
  operation: Operation,
  requester: Requester
): Permit {
  const isEnforced = quotas.some((quota) => quota.isEnforced)
  const unnamed = { name: null, unit: 'requests', period: null, window: null, isEnforced }
  const outcome = { outcome: 'unavailable', reason: 'mark', callerKey: null } as const
  const decision = uncounted(unnamed, operation, 0, outcome)
  publishDecisions([decision], requester)
  return new Permit(requester, [], isEnforced ? decision : null, [decision])
}
