import type { FastifyRequest } from 'fastify'
import type { Paths } from '../subject/paths.js'
import { uncounted } from './decision.js'
import { areReady } from '../promises.js'
import { ask } from './ask.js'
import { decide, decisionsOf, refusalAmong } from './decide.js'
import type { OpenPermits } from './open-permits.js'
import { Permit } from './permit.js'
import {
  prepare,
  readCallers,
  readLimits,
  type GivenCosts,
  type QuotaOfRequest
} from './prepare.js'
import { publishDecisions } from './publish.js'
import type { Quota } from './quota.js'
import { requesterOf, type Requester } from './requester.js'

/**
 * Decides on a request (docs/rules.md, "Decision"): determines the limits, callers and costs, asks
 * the stores, and publishes the decisions. Never rejects.
 *
 * @param quotas The quotas of the request, in their order.
 * @param costs What a handler gives in place of the costs of the definitions.
 */
export async function takePermit (
  quotas: readonly QuotaOfRequest[],
  requester: Requester,
  open: OpenPermits,
  costs: GivenCosts | null = null
): Promise<Permit> {
  open.startDecision()
  // A promise is awaited only where there is one: each `await` costs 2 % of a request in memory.
  const readingLimits = readLimits(quotas, requester)
  const limits = areReady(readingLimits) ? readingLimits : await Promise.all(readingLimits)
  const readingCallers = readCallers(quotas, limits, requester)
  const callers = areReady(readingCallers) ? readingCallers : await Promise.all(readingCallers)
  const prepared = prepare(quotas, limits, callers, requester, costs)
  const answers = await ask(prepared, requester, open)
  const evaluations = decide(prepared, answers)
  const refusal = refusalAmong(evaluations)
  const decisions = refusal === null ? decisionsOf(evaluations) : [refusal.decision]
  const permit = new Permit(requester, evaluations, refusal, decisions, open)
  open.endDecision()
  publishDecisions(decisions, requester, open.log)
  return permit
}

/** Decides on a request whose mark failed: it is refused, unless all quotas are in shadow mode. */
export async function refuseUnmatched (
  quotas: readonly Quota[],
  request: FastifyRequest,
  paths: Paths,
  open: OpenPermits
): Promise<Permit> {
  const isEnforced = quotas.some((quota) => quota.isEnforced)
  const unknown = { name: null, unit: 'requests', period: null, window: null, isEnforced }
  const outcome = { outcome: 'unavailable', reason: 'mark', callerKey: null } as const
  const decision = uncounted(unknown, paths.operationOf(request), 0, outcome)
  const refusal = isEnforced ? { decision, wait: null } : null
  const requester = requesterOf(request)
  const permit = new Permit(requester, [], refusal, [decision], open)
  publishDecisions([decision], requester, open.log)
  return permit
}
