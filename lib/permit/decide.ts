import { quotaDecisions, type QuotaDecisionMessage } from '../channels.js'
import type { CalendarWindow } from '../limit/calendar.js'
import { required } from '../required.js'
import { hasRoom } from '../store/counter.js'
import type { Acquisition, Demand, QuotaCount } from '../store/store.js'
import { wallClock } from '../wall-clock.js'
import type { QuotaDecision } from './decision.js'
import type { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'

/**
 * How long a client should wait for what others hold, estimates and places, in milliseconds. It is
 * unknown when they settle it, which can be soon.
 */
const retryForHeld = 1000

/** Decides on a request in one quota by what its store has returned for its demand. */
export function decideBy (each: QuotaOfRequest, demand: Demand, acquisition: Acquisition): void {
  const { quota } = each
  const windowRemaining = timeLeft(acquisition, each.calendarWindow)
  let retryAfter: number | null = null
  if (!acquisition.admitted) {
    each.roomIn = roomIn(acquisition, demand, windowRemaining)
    each.retryIn = each.roomIn === 0 ? retryForHeld : each.roomIn
    retryAfter = each.retryIn === Infinity ? null : secondsOf(each.retryIn)
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
 * Returns how long it takes at least until there can be room, in milliseconds: 0 for what others
 * hold, which they can settle at any time, and `Infinity` if there never will be.
 */
function roomIn (
  { count, held }: Acquisition,
  demand: Demand,
  windowRemaining: number | null
): number {
  if (!hasRoom(0, demand)) return Infinity
  // A caller waits for what others hold, and not for its window, if nothing else takes the room.
  if (windowRemaining === null || hasRoom(count - held, demand)) return 0
  return windowRemaining
}

/**
 * Returns the milliseconds until the window of a count is followed by the next one; null if it has
 * no window.
 *
 * @param calendarWindow The day, week or month of the caller, now; null if the quota has none.
 */
export function timeLeft (
  { windowRemaining, end }: QuotaCount,
  calendarWindow: CalendarWindow | null
): number | null {
  if (end === undefined) return windowRemaining
  const window = required(calendarWindow, 'the window of a count with an end')
  return Math.max(1, window.startAfter(end) - wallClock())
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
  let longest = 0
  for (const each of quotas) {
    const { decision, retryIn } = each
    if (decision === null || !each.isRefused) continue
    const precedence = precedenceOf(decision)
    if (precedence > highest || (precedence === highest && retryIn > longest)) {
      refusal = decision
      highest = precedence
      longest = retryIn
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
  const { server, decisionLog } = requester.server
  for (const decision of decisions) {
    if (quotaDecisions.hasSubscribers) {
      quotaDecisions.publish({ server, request, decision } satisfies QuotaDecisionMessage)
    }
    const { outcome, overflow, waited } = decision
    const isAdmitted = outcome === 'admitted' || outcome === 'disabled'
    const isUsual = isAdmitted && !overflow && waited === 0
    if (!isUsual) decisionLog.add(decision, request, requester.log)
  }
}
