import { logFailure } from '../log.js'
import { then, type Eventual } from '../promises.js'
import type { Operation } from '../subject/operation.js'
import { ask } from './ask.js'
import type { GivenCosts } from './given-costs.js'
import { publishDecisions, refusalAmong } from './decide.js'
import { withoutStore, type QuotaDecision } from './decision.js'
import { Permit } from './permit.js'
import { prepare } from './prepare.js'
import type { Quota } from './quota.js'
import { decisionsOf, QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'
import { takeShadows } from './shadows.js'
import { askOrWait } from './waiting/wait.js'
import type { Waited } from './waiting/waiting-request.js'

/** A quota of a request, and the operation that it reaches; null if there is no request. */
export interface MatchedQuota {
  readonly quota: Quota
  readonly operation: Operation | null
}

/**
 * Decides on a request (docs/rules.md, "Decision"): determines the callers, limits and costs, asks
 * the stores, and publishes the decisions. A promise only if something of the host's returned one,
 * if there are several stores, or if the request waits. Neither throws nor rejects: whatever fails,
 * the request is refused.
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
  const all: QuotaOfRequest[] = []
  const enforced: QuotaOfRequest[] = []
  /** In monotonic milliseconds; null if no quota lets the request wait. */
  let arrivedAt: number | null = null
  for (const { quota, operation } of matches) {
    const cost = costs?.get(quota.name) ?? null
    const each = new QuotaOfRequest(quota, operation, requester.reference, cost)
    all.push(each)
    if (quota.isEnforced) enforced.push(each)
    if (quota.lines !== null) arrivedAt ??= performance.now()
  }
  function askNow (): Eventual<Permit> {
    if (arrivedAt !== null) {
      const waiting = askOrWait(enforced, requester, arrivedAt, hasResponded)
      return then(waiting, (waited) => permitAfter(waited, all, requester))
    }
    const asking = ask(enforced, requester)
    if (asking !== undefined) return asking.then(() => permitFor(all, enforced, requester))
    return permitFor(all, enforced, requester)
  }
  function askLater (): Eventual<Permit> {
    if (hasResponded()) return new Permit(requester, [], { refusal: null, decisions: [] })
    return askNow()
  }
  function failed (error: unknown): Eventual<Permit> {
    logFailure(requester.log, error, 'the quota could not decide on a request, which is refused')
    for (const each of enforced) each.fail('store')
    return permitFor(enforced, enforced, requester)
  }
  try {
    const preparing = prepare(enforced, requester)
    const permit = preparing === undefined ? askNow() : preparing.then(askLater)
    if (permit instanceof Permit) return permit
    const deciding = permit.then((each) => each, failed)
    // A server that closes waits for the decision, which can count something.
    requester.server.closing.waitFor(deciding)
    return deciding
  } catch (error) {
    return failed(error)
  }
}

/** Returns the permit of a request that may have waited, whose quotas were decided on anew then. */
function permitAfter (
  { quotas, isAbandoned }: Waited,
  all: readonly QuotaOfRequest[],
  requester: Requester
): Eventual<Permit> {
  if (isAbandoned) {
    const refusal = refusalAmong(quotas)
    return new Permit(requester, quotas, { refusal, decisions: [], isAbandoned })
  }
  const decided = new Map(quotas.map((each) => [each.quota, each]))
  return permitFor(
    all.map((each) => decided.get(each.quota) ?? each),
    quotas,
    requester
  )
}

/** Returns the permit of a request whose enforced quotas have been asked. */
function permitFor (
  all: readonly QuotaOfRequest[],
  enforced: readonly QuotaOfRequest[],
  requester: Requester
): Eventual<Permit> {
  const refusal = refusalAmong(enforced)
  if (refusal !== null) {
    publishDecisions([refusal], requester)
    return new Permit(requester, enforced, { refusal, decisions: [refusal] })
  }
  const decisions = decisionsOf(enforced)
  if (decisions.length < enforced.length) {
    throw new TypeError('an enforced quota of the request has no decision')
  }
  publishDecisions(decisions, requester)
  if (all.length === enforced.length) {
    return new Permit(requester, enforced, { refusal: null, decisions })
  }
  const shadows = all.filter(({ quota }) => !quota.isEnforced)
  return then(
    takeShadows(shadows, requester),
    (taken) =>
      new Permit(requester, enforced, { refusal, decisions: decisionsOf(all), shadows: taken })
  )
}

/** Decides on a request whose mark failed: refuses it, unless all quotas are in shadow mode. */
export function refuseUnmatched (
  quotas: readonly Quota[],
  operation: Operation,
  requester: Requester
): Permit {
  const isEnforced = quotas.some((quota) => quota.isEnforced)
  const unnamed = { unit: 'requests', period: null, window: null, isEnforced }
  const { reference } = requester
  const decision: QuotaDecision = {
    outcome: 'unavailable',
    reason: 'mark',
    callerKey: null,
    retryAfter: 1,
    quota: null,
    ...withoutStore(unnamed, { operation, reference }, 0)
  }
  publishDecisions([decision], requester)
  const refusal = isEnforced ? decision : null
  return new Permit(requester, [], { refusal, decisions: [decision] })
}
