import type { StoreAnswer } from '../store/ask-stores.js'
import { hasRoom } from '../store/counter.js'
import type { Acquisition } from '../store/store.js'
import { refuses, uncounted, type CountedDecision, type QuotaDecision } from './decision.js'
import { timeLeft } from './demand.js'
import type { Demanded, Prepared } from './prepare.js'

/** What came of one quota of a request. */
export interface Evaluation {
  readonly prepared: Prepared
  /** What its store has answered; null if it was not asked or failed. */
  readonly acquisition: Acquisition | null
  /** Null if the store was not asked, because another quota refuses the request. */
  readonly decision: QuotaDecision | null
}

/** The decision for which a request is refused. */
export interface Refusal {
  readonly decision: QuotaDecision
  /** How long to wait before the next attempt, in milliseconds; null if that is unknown. */
  readonly wait: number | null
}

// What others hold is settled at a time that nobody knows, which can be soon. In milliseconds.
const waitForHeld = 1000

/** Decides on a request in each of its quotas by what the stores have answered, in their order. */
export function decide (
  prepared: readonly Prepared[],
  answers: readonly StoreAnswer[]
): readonly Evaluation[] {
  const evaluations: Evaluation[] = []
  for (const [index, each] of prepared.entries()) {
    evaluations.push(evaluationOf(each, answers[index] ?? null))
  }
  return evaluations
}

function evaluationOf (prepared: Prepared, answer: StoreAnswer): Evaluation {
  if (prepared.demand === null) {
    return { prepared, acquisition: null, decision: prepared.decision }
  }
  if (answer === null) return { prepared, acquisition: null, decision: null }
  const { quota, operation, demand } = prepared
  if (answer === 'failed') {
    const { callerKey, limit } = demand
    const outcome = { outcome: 'unavailable', reason: 'store', callerKey } as const
    return { prepared, acquisition: null, decision: uncounted(quota, operation, limit, outcome) }
  }
  return { prepared, acquisition: answer, decision: countedDecision(prepared, answer) }
}

function countedDecision (
  { quota, operation, demand }: Demanded,
  acquisition: Acquisition
): CountedDecision {
  // Without a spread, which is slow.
  return {
    outcome: acquisition.admitted ? 'admitted' : 'rejected',
    quota: quota.name,
    unit: quota.unit,
    period: quota.period,
    window: quota.window,
    reason: null,
    operation,
    enforced: quota.isEnforced,
    limit: demand.limit,
    callerKey: demand.callerKey,
    count: acquisition.count,
    held: acquisition.held,
    granted: acquisition.granted,
    windowRemaining: timeLeft(acquisition),
    overflow: acquisition.overflow
  }
}

/**
 * Returns the decision for which a request is refused: that with the highest precedence, of equals
 * that with the longest wait, and of equals the first one. Null if there is none.
 */
export function refusalAmong (evaluations: readonly Evaluation[]): Refusal | null {
  let refusal: Refusal | null = null
  let highest = -1
  for (const evaluation of evaluations) {
    const { decision } = evaluation
    if (decision === null || !refuses(decision)) continue
    const wait = waitAfter(evaluation, decision)
    const precedence = precedenceOf(decision)
    const isLonger = precedence === highest && (wait ?? 0) > (refusal?.wait ?? 0)
    if (precedence > highest || isLonger) {
      highest = precedence
      refusal = { decision, wait }
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

/** Returns how long to wait after a decision until there can be room, in milliseconds. */
export function waitAfter (
  { prepared, acquisition }: Evaluation,
  decision: QuotaDecision
): number | null {
  const { demand } = prepared
  const isRejected = demand !== null && acquisition !== null && !acquisition.admitted
  if (!isRejected) return decision.windowRemaining
  // A caller waits for what others hold, and not for its window, if nothing else takes the room.
  return hasRoom(acquisition.count - acquisition.held, demand)
    ? waitForHeld
    : decision.windowRemaining
}

/** Returns the decisions that were made, in the order of the quotas. */
export function decisionsOf (evaluations: readonly Evaluation[]): QuotaDecision[] {
  const decisions: QuotaDecision[] = []
  for (const { decision } of evaluations) if (decision !== null) decisions.push(decision)
  return decisions
}
