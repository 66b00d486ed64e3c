import { quotaDecisions, type QuotaDecisionMessage } from '../channels.js'
import { required } from '../required.js'
import { hasRoom } from '../store/counter.js'
import type { Acquisition, Demand, QuotaCount } from '../store/store.js'
import { wallClock } from '../wall-clock.js'
import type { QuotaDecision } from './decision.js'
import type { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'

/**
 * How long to wait for what others hold, in milliseconds. It is unknown when they settle it, which
 * can be soon.
 */
const waitForHeld = 1000

/** Decides on a request in one quota by what its store has returned for its demand. */
export function decideBy (each: QuotaOfRequest, demand: Demand, acquisition: Acquisition): void {
  const { quota } = each
  const windowRemaining = timeLeft(acquisition, demand)
  let retryAfter: number | null = null
  if (!acquisition.admitted) {
    each.wait = waitAfter(acquisition, demand, windowRemaining)
    retryAfter = each.wait === Infinity ? null : secondsOf(each.wait)
  }
  each.acquisition = acquisition
  each.decision = {
    outcome: acquisition.admitted ? 'admitted' : 'rejected',
    reason: null,
    reference: each.reference,
    quota: quota.name,
    unit: quota.unit,
    period: quota.period,
    window: quota.window,
    operation: each.operation,
    enforced: quota.isEnforced,
    limit: each.limit,
    callerKey: demand.callerKey,
    count: acquisition.count,
    held: acquisition.held,
    granted: acquisition.granted,
    windowRemaining,
    retryAfter,
    overflow: acquisition.overflow === true,
    waited: 0
  }
}

/**
 * Returns how long to wait after a rejection until there can be room, in milliseconds. `Infinity`
 * if there never will be.
 */
function waitAfter (
  { count, held }: Acquisition,
  demand: Demand,
  windowRemaining: number | null
): number {
  if (!hasRoom(0, demand)) return Infinity
  // A caller waits for what others hold, and not for its window, if nothing else takes the room.
  if (windowRemaining === null || hasRoom(count - held, demand)) return waitForHeld
  return windowRemaining
}

/**
 * Returns the milliseconds until the window of a count ends; null if it has no window. A window of
 * a time zone stays open until a day of the caller begins at its end or later. If the time zone has
 * changed, that is not before the present day has ended, too.
 */
export function timeLeft (
  { windowRemaining, end }: QuotaCount,
  demand: Pick<Demand, 'end'>
): number | null {
  if (end === undefined) return windowRemaining
  return Math.max(1, Math.max(end, required(demand.end, 'the end of a window')) - wallClock())
}

/** Returns a time as whole seconds, rounded up, as in `Retry-After` (docs/rules.md, "Refusal"). */
export function secondsOf (milliseconds: number): number {
  return Math.max(1, Math.ceil(milliseconds / 1000))
}

/**
 * Returns the decision that determines the refusal: that with the highest precedence, of equals
 * that with the longest wait, and of equals the first one. Null if none refuses the request.
 */
export function refusalAmong (quotas: readonly QuotaOfRequest[]): QuotaDecision | null {
  let refusal: QuotaDecision | null = null
  let highest = -1
  let longestWait = 0
  for (const each of quotas) {
    const { decision, wait } = each
    if (decision === null || !each.isRefused) continue
    const precedence = precedenceOf(decision)
    if (precedence > highest || (precedence === highest && wait > longestWait)) {
      refusal = decision
      highest = precedence
      longestWait = wait
    }
  }
  return refusal
}

/** The greater, the sooner a decision that refuses a request decides its response. */
function precedenceOf ({ outcome, reason, unit }: QuotaDecision): number {
  if (outcome === 'unauthenticated') return 4
  // A store is asked only if nothing else has failed.
  if (outcome === 'unavailable') return reason === 'store' ? 0 : 3
  return unit === 'concurrent-requests' ? 2 : 1
}

/** Publishes the decisions on a request, and logs those that a host may want to know of. */
export function publishDecisions (
  decisions: readonly QuotaDecision[],
  requester: Requester
): void {
  const { request } = requester
  const { server, quotaLog } = requester.server
  for (const decision of decisions) {
    if (quotaDecisions.hasSubscribers) {
      quotaDecisions.publish({ server, request, decision } satisfies QuotaDecisionMessage)
    }
    const { outcome, overflow } = decision
    const isUsual = (outcome === 'admitted' || outcome === 'disabled') && !overflow
    if (!isUsual) quotaLog.decided(decision, request, requester.log)
  }
}
