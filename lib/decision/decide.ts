import type { FastifyRequest } from 'fastify'
import { shownError } from '../errors.js'
import type { Caller } from '../caller/request-caller.js'
import { Unidentified } from '../caller/unidentified.js'
import { effectiveLimit } from '../limit/limit.js'
import { Pending } from '../pending.js'
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
  const configured = quota.limits.read(request)
  if (typeof configured === 'number') return decideWithLimit(quota, request, operation, effectiveLimit(configured))
  return whenLimitIsKnown(quota, request, operation, configured)
}

// A function that creates a closure is a function of its own here and below, because V8 would otherwise allocate memory for the closure's
// variables in each request, even if it does not create the closure.
function whenLimitIsKnown (quota: Quota, request: FastifyRequest, operation: Operation, configured: Pending<number>): Decision {
  return configured.next((configured) => decideWithLimit(quota, request, operation, effectiveLimit(configured)))
}

function decideWithLimit (quota: Quota, request: FastifyRequest, operation: Operation, limit: number): Decision {
  if (limit === 0) return decideWithoutCounter('disabled', null, quota, operation, limit)
  const caller = quota.callerOf(request, quota.keySuffix)
  if (typeof caller === 'string') return decideForCaller(quota, request, operation, limit, caller)
  if (caller instanceof Unidentified) return decideWithoutCounter('unauthenticated', caller.reason, quota, operation, limit)
  return whenCallerIsKnown(quota, request, operation, limit, caller)
}

function whenCallerIsKnown (quota: Quota, request: FastifyRequest, operation: Operation, limit: number, caller: Pending<Caller>): Decision {
  return caller.next((caller) => {
    if (typeof caller === 'string') return decideForCaller(quota, request, operation, limit, caller)
    return decideWithoutCounter('unauthenticated', caller.reason, quota, operation, limit)
  })
}

function decideWithoutCounter (outcome: Draft['outcome'], reason: Draft['reason'], quota: Quota, operation: Operation, limit: number): QuotaDecision {
  const draft = createDraft(quota, operation, limit, null)
  draft.outcome = outcome
  draft.reason = reason
  return draft
}

function decideForCaller (quota: Quota, request: FastifyRequest, operation: Operation, limit: number, callerKey: string): Decision {
  const draft = createDraft(quota, operation, limit, callerKey)
  try {
    const { store } = quota
    const answer = storeAnswers.hasSubscribers ? timedAcquire(request, store, callerKey, limit) : store.acquire(callerKey, limit)
    // An object without `then` is the usual answer. After this check, V8 reads its properties without further checks.
    if (typeof answer === 'object' && answer !== null && !('then' in answer)) return count(draft, answer)
    return isThenable(answer) ? decideLater(quota, request, draft, answer) : count(draft, answer)
  } catch (error) {
    return fail(quota, request, draft, error)
  }
}

// All decisions are created by the same object literal, so that V8 gives them the same shape. A request is not admitted until the
// store has answered.
function createDraft ({ name: quota, isEnforced: enforced }: Quota, operation: Operation, limit: number, callerKey: string | null): Draft {
  return { outcome: 'unavailable', quota, reason: null, operation, enforced, limit, callerKey, count: null, windowRemaining: null, overflow: false }
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
  // V8 does not know that this is a boolean, and compares it in fewer instructions than it converts it.
  draft.outcome = admitted === true ? 'admitted' : 'rejected'
  return draft
}

function fail (quota: Quota, request: FastifyRequest, draft: Draft, error: unknown): QuotaDecision {
  request.log.error({ err: shownError(error), quota: quota.name }, 'the quota store failed; the request is not counted')
  return draft
}
