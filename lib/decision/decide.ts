import type { FastifyRequest } from 'fastify'
import { Unidentified } from '../caller/unidentified.js'
import { effectiveLimit } from '../limit/limit.js'
import { Pending } from '../pending.js'
import { shownError } from '../shown.js'
import { assertAcquisition, type Acquisition } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import { isThenable, whenSettled } from '../thenable.js'
import type { QuotaDecision } from './decision.js'
import type { Quota } from './quota.js'
import { storeAnswers, timedAcquire } from './store-answers.js'

/** A decision that is not complete yet. */
type Draft = { -readonly [Field in keyof QuotaDecision]: QuotaDecision[Field] }
type Decision = QuotaDecision | Pending<QuotaDecision>

/**
 * Makes the decision on a request: determines the limit and the caller, then runs the acquire step (docs/rules.md, "Decision"). Creates no
 * promise and stays in the current turn of the event loop unless one of these steps is asynchronous.
 */
export function decide (quota: Quota, request: FastifyRequest, operation: Operation): Decision {
  const draft = createDraft(quota, operation)
  const configured = quota.limits.read(request)
  if (typeof configured === 'number') return decideWithLimit(quota, request, draft, configured)
  return configured.next((configured) => decideWithLimit(quota, request, draft, configured))
}

// All decisions are created by the same object literal, so that V8 gives them the same shape. A request is not admitted until the
// store has answered.
function createDraft ({ name: quota, isEnforced: enforced }: Quota, operation: Operation): Draft {
  return { outcome: 'unavailable', quota, reason: null, operation, enforced, limit: 0, callerKey: null, count: null, windowRemaining: null, overflow: false }
}

function decideWithLimit (quota: Quota, request: FastifyRequest, draft: Draft, configured: number): Decision {
  draft.limit = effectiveLimit(configured)
  if (draft.limit === 0) {
    draft.outcome = 'disabled'
    return draft
  }
  const caller = quota.callerOf(request, quota.keySuffix)
  if (caller instanceof Pending) return caller.next((caller) => decideForCaller(quota, request, draft, caller))
  return decideForCaller(quota, request, draft, caller)
}

function decideForCaller (quota: Quota, request: FastifyRequest, draft: Draft, caller: string | Unidentified): Decision {
  if (caller instanceof Unidentified) {
    draft.outcome = 'unauthenticated'
    draft.reason = caller.reason
    return draft
  }
  draft.callerKey = caller
  try {
    const { store } = quota
    const answer = storeAnswers.hasSubscribers ? timedAcquire(request, store, caller, draft.limit) : store.acquire(caller, draft.limit)
    return isThenable(answer) ? decideLater(quota, request, draft, answer) : count(draft, answer)
  } catch (error) {
    return fail(quota, request, draft, error)
  }
}

function decideLater (quota: Quota, request: FastifyRequest, draft: Draft, answer: PromiseLike<Acquisition>): Pending<QuotaDecision> {
  const decision = new Pending<QuotaDecision>()
  whenSettled(answer,
    (acquisition) => { decision.settle(() => countOrFail(quota, request, draft, acquisition)) },
    (error) => { decision.settle(() => fail(quota, request, draft, error)) })
  return decision
}

function countOrFail (quota: Quota, request: FastifyRequest, draft: Draft, acquisition: Acquisition): QuotaDecision {
  try {
    return count(draft, acquisition)
  } catch (error) {
    return fail(quota, request, draft, error)
  }
}

function count (draft: Draft, acquisition: Acquisition): QuotaDecision {
  assertAcquisition(acquisition)
  const { admitted, count, windowRemaining, overflow } = acquisition
  draft.count = count
  draft.windowRemaining = windowRemaining
  draft.overflow = overflow
  draft.outcome = admitted ? 'admitted' : 'rejected'
  return draft
}

function fail (quota: Quota, request: FastifyRequest, draft: Draft, error: unknown): QuotaDecision {
  request.log.error({ err: shownError(error), quota: quota.name }, 'the quota store failed; the request is not counted')
  return draft
}
