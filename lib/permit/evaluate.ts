import { askStores, type StoreAnswer } from '../store/ask-stores.js'
import { hasRoom } from '../store/counter.js'
import type { Acquisition, Demand, QuotaStore } from '../store/store.js'
import type { CountedDecision, QuotaDecision } from './decision.js'
import { timeLeft } from './demand.js'
import type { OpenPermits } from './open-permits.js'
import { uncounted, type Demanded, type Prepared } from './prepare.js'
import type { Requester } from './requester.js'

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

/**
 * Asks the stores of the enforced quotas of a request in one step. If all of them admit the
 * request, asks those of its shadow quotas, each on its own. Never rejects.
 *
 * @returns An evaluation of each quota, in their order.
 */
export function evaluate (
  prepared: readonly Prepared[],
  requester: Requester,
  open: OpenPermits
): Promise<readonly Evaluation[]> {
  for (const { quota } of prepared) {
    if (!quota.isEnforced) return evaluateWithShadows(prepared, requester, open)
  }
  return evaluateTogether(prepared, requester, open)
}

async function evaluateWithShadows (
  prepared: readonly Prepared[],
  requester: Requester,
  open: OpenPermits
): Promise<readonly Evaluation[]> {
  const enforced = prepared.filter(({ quota }) => quota.isEnforced)
  const evaluated = await evaluateTogether(enforced, requester, open)
  const isRefused = refusalAmong(evaluated) !== null
  const evaluateAlone = async (each: Prepared): Promise<Evaluation> => {
    if (isRefused) return evaluationOf(each, null)
    const [evaluation] = await evaluateTogether([each], requester, open)
    return evaluation ?? evaluationOf(each, null)
  }
  return Promise.all(
    prepared.map(
      (each) => evaluated.find((evaluation) => evaluation.prepared === each) ?? evaluateAlone(each)
    )
  )
}

/** Evaluates quotas, whose stores are asked only if none of them refuses the request before. */
async function evaluateTogether (
  prepared: readonly Prepared[],
  requester: Requester,
  open: OpenPermits
): Promise<readonly Evaluation[]> {
  const demands: Demand[] = []
  const stores: QuotaStore[] = []
  for (const { quota, demand, decision } of prepared) {
    if (decision !== null && refuses(decision)) {
      return prepared.map((each) => evaluationOf(each, null))
    }
    if (demand === null) continue
    demands.push(demand)
    stores.push(quota.store)
  }
  const answers = await askStores(demands, stores, requester, open.wait)
  const evaluations: Evaluation[] = []
  let asked = 0
  for (const each of prepared) {
    if (each.demand === null) evaluations.push(evaluationOf(each, null))
    else evaluations.push(evaluationOf(each, answers[asked++] ?? null))
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

/** Whether a decision refuses the request. */
function refuses ({ enforced, outcome }: QuotaDecision): boolean {
  return enforced && outcome !== 'admitted' && outcome !== 'disabled'
}

/**
 * Returns the decision for which a request is refused, of equals the first one; null if there is
 * none.
 */
export function refusalAmong (evaluations: readonly Evaluation[]): Refusal | null {
  let refusal: Refusal | null = null
  let highest = -Infinity
  for (const evaluation of evaluations) {
    const { decision } = evaluation
    if (decision === null || !refuses(decision)) continue
    const wait = waitAfter(evaluation)
    const rank = rankOf(decision, wait)
    if (rank <= highest) continue
    highest = rank
    refusal = { decision, wait }
  }
  return refusal
}

/**
 * A missing caller comes first, then a cost or a time zone that failed, requests in flight, the
 * longest wait, and a store that failed.
 */
function rankOf ({ outcome, reason, unit }: QuotaDecision, wait: number | null): number {
  if (outcome === 'unauthenticated') return Infinity
  if (outcome === 'unavailable') return reason === 'store' ? -1 : Number.MAX_VALUE
  if (unit === 'requests-in-flight') return Number.MAX_SAFE_INTEGER
  return wait ?? 0
}

/** Returns how long to wait after a decision until there can be room, in milliseconds. */
export function waitAfter ({ prepared, acquisition, decision }: Evaluation): number | null {
  if (decision === null) return null
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
