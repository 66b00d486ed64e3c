import timers from 'node:timers'
import { logFailure } from '../log.js'
import { isPromise, then, type Eventual } from '../promises.js'
import type { Operation } from '../subject/operation.js'
import { withTimeout } from '../time-limit.js'
import { ask } from './ask.js'
import type { GivenCosts } from './given-costs.js'
import { publishDecisions, refusalAmong } from './decide.js'
import { uncounted, type QuotaDecision } from './decision.js'
import { Permit, type Shadow } from './permit.js'
import { prepare } from './prepare.js'
import type { Quota } from './quota.js'
import { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'
import { askOrWait, type Waited } from './wait.js'

/** A quota of a request, and the operation that it reaches; null if there is no request. */
export interface MatchedQuota {
  readonly quota: Quota
  readonly operation: Operation | null
}

/** How long a request waits for its shadow quotas, in milliseconds. */
const longestWaitForShadows = 100

/**
 * Decides on a request (docs/rules.md, "Decision"): determines the callers, limits and costs, asks
 * the stores, and publishes the decisions. A promise only if something of the host's returned one.
 * Neither throws nor rejects: whatever fails, the request is refused.
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
  /** Only of interest if the request may wait. */
  let arrivedAt: number | null = null
  for (const { quota, operation } of matches) {
    const cost = costs?.get(quota.name) ?? null
    const each = new QuotaOfRequest(quota, operation, requester.reference, cost)
    all.push(each)
    if (quota.isEnforced) enforced.push(each)
    if (quota.lines !== null) arrivedAt ??= performance.now()
  }
  function askNow (): Eventual<Permit> {
    if (hasResponded()) return new Permit(requester, [], { refusal: null, decisions: [] })
    if (arrivedAt !== null) {
      const waiting = askOrWait(enforced, requester, arrivedAt, hasResponded)
      return then(waiting, (waited) => permitAfter(waited, all, requester))
    }
    const asking = ask(enforced, requester)
    if (asking !== undefined) return asking.then(() => permitFor(all, enforced, requester))
    return permitFor(all, enforced, requester)
  }
  function failed (error: unknown): Permit {
    logFailure(requester.log, error, 'the quota could not decide on a request, which is refused')
    return refuse(enforced, requester)
  }
  try {
    const preparing = prepare(enforced, requester)
    const permit = preparing === undefined ? askNow() : preparing.then(askNow)
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
  if (refusal !== null) return refused(refusal, enforced, requester)
  const decisions = decisionsOf(enforced)
  if (decisions.length < enforced.length) {
    throw new TypeError('an enforced quota of the request has no decision')
  }
  publishDecisions(decisions, requester)
  return all.length === enforced.length
    ? new Permit(requester, enforced, { refusal: null, decisions })
    : besideShadows(all, enforced, requester)
}

/** Refuses a request in each enforced quota that has not refused it already. */
function refuse (enforced: readonly QuotaOfRequest[], requester: Requester): Permit {
  for (const each of enforced) {
    if (each.isRefused) continue
    const callerKey = each.caller?.callerKey ?? null
    each.decideWithout({ outcome: 'unavailable', reason: 'store', callerKey })
  }
  const refusal = refusalAmong(enforced)
  return refusal === null
    ? new Permit(requester, [], { refusal, decisions: [] })
    : refused(refusal, enforced, requester)
}

function refused (
  refusal: QuotaDecision,
  enforced: readonly QuotaOfRequest[],
  requester: Requester
): Permit {
  publishDecisions([refusal], requester)
  return new Permit(requester, enforced, { refusal, decisions: [refusal] })
}

/**
 * Asks the shadow quotas of an admitted request, each on its own and at the same time, and waits
 * for them for a while. What is decided later is published, and settled like the others.
 */
function besideShadows (
  all: readonly QuotaOfRequest[],
  enforced: readonly QuotaOfRequest[],
  requester: Requester
): Eventual<Permit> {
  const shadows: Shadow[] = []
  const waiting: PromiseLike<Permit>[] = []
  for (const each of all) {
    if (each.quota.isEnforced) continue
    const permit = takeShadow(each, requester)
    shadows.push({ quota: each.quota, permit })
    if (isPromise(permit)) waiting.push(permit)
  }
  function decided (): Permit {
    return new Permit(requester, enforced, { refusal: null, decisions: decisionsOf(all), shadows })
  }
  if (waiting.length === 0) return decided()
  const asked = withTimeout(longestWaitForShadows, Promise.all(waiting), { timers })
  return asked.then(decided, decided)
}

/** Takes the permit of a shadow quota, which refuses nothing. Neither throws nor rejects. */
function takeShadow (each: QuotaOfRequest, requester: Requester): Eventual<Permit> {
  function decided (): Permit {
    const decisions = decisionsOf([each])
    publishDecisions(decisions, requester)
    return new Permit(requester, [each], { refusal: null, decisions })
  }
  function failed (error: unknown): Permit {
    const message = 'a shadow quota could not decide on a request'
    logFailure(requester.log, error, message, { quota: each.quota.name })
    return new Permit(requester, [], { refusal: null, decisions: [] })
  }
  try {
    const preparing = prepare([each], requester)
    const permit = then(preparing, () => then(ask([each], requester), decided))
    if (permit instanceof Permit) return permit
    const deciding = permit.then((taken) => taken, failed)
    requester.server.closing.waitFor(deciding)
    return deciding
  } catch (error) {
    return failed(error)
  }
}

function decisionsOf (quotas: readonly QuotaOfRequest[]): QuotaDecision[] {
  const decisions: QuotaDecision[] = []
  for (const { decision } of quotas) {
    if (decision !== null) decisions.push(decision)
  }
  return decisions
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
  const { reference } = requester
  const decision = uncounted(unnamed, { operation, reference }, 0, outcome)
  publishDecisions([decision], requester)
  const refusal = isEnforced ? decision : null
  return new Permit(requester, [], { refusal, decisions: [decision] })
}
