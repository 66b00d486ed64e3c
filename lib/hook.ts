import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { decide, undecided } from './decision/decide.js'
import { quotaDecisions, type QuotaDecisionMessage } from './decision/decision.js'
import { DecisionLog } from './decision/decision-log.js'
import type { Quota } from './decision/quota.js'
import { findVerdict, keepVerdict } from './decision/request-state.js'
import type { Verdict } from './decision/verdict.js'
import { shownError } from './errors.js'
import type { RefusalBodyWriter } from './refusal/host-body.js'
import { setRateLimitFields } from './refusal/rate-limit-fields.js'
import { sendRefusal } from './refusal/refusal.js'
import type { RequestMatcher } from './subject/request-matcher.js'
import { createUsageFollower } from './usage/usage.js'

/** Options that change the responses of the hook. */
export interface ResponseOptions {
  readonly rateLimitHeaders?: 'draft-10' | undefined
  readonly refusalBody?: RefusalBodyWriter | undefined
}

/** Creates the hook that takes each request through all steps: quotas, limits, caller, store, and refusal or admission. */
export function createQuotaHook (requests: RequestMatcher<Quota>, quotas: readonly Quota[], { rateLimitHeaders, refusalBody }: ResponseOptions) {
  const log = new DecisionLog()
  const follow = createUsageFollower()

  function begin (request: FastifyRequest, reply: FastifyReply): Verdict | Promise<Verdict> | null {
    const verdict = decideOn(request)
    if (verdict === null) return null
    if (!(verdict instanceof Promise)) return conclude(verdict, request, reply)
    const pending = verdict.then((made) => conclude(made, request, reply))
    keepVerdict(request, pending)
    return pending
  }

  function decideOn (request: FastifyRequest): Verdict | Promise<Verdict> | null {
    try {
      const matches = requests.match(request)
      return matches.length === 0 ? null : decide(matches, request)
    } catch (error) {
      request.log.error({ err: shownError(error) }, 'the quotas of the request could not be determined; the request is not counted')
      return undecided(quotas, request)
    }
  }

  function conclude (verdict: Verdict, request: FastifyRequest, reply: FastifyReply): Verdict {
    keepVerdict(request, verdict)
    // First of all, so that the places are given back even if the host's log throws.
    if (verdict.outlastsDecision) follow(verdict, request, reply)
    for (const { decision } of verdict.published) {
      if (quotaDecisions.hasSubscribers) quotaDecisions.publish({ request, decision } satisfies QuotaDecisionMessage)
      log.add(decision, request)
    }
    if (rateLimitHeaders !== undefined) setRateLimitFields(reply, verdict.rulings.map(({ decision }) => decision))
    return verdict
  }

  function end ({ refusal }: Verdict, request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
    if (refusal === null) return done()
    // The host may have responded during an asynchronous step, for example because its own time limit was exceeded.
    if (!reply.sent) sendRefusal(refusal.decision, request, reply, refusalBody)
  }

  async function endLater (pending: Promise<Verdict>, request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): Promise<void> {
    try {
      end(await pending, request, reply, done)
    } catch (error) {
      passError(error, request, done)
    }
  }

  return function quotaHook (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
    // After reply.callNotFound(), a request passes through the hooks again. It is decided only once.
    const verdict = findVerdict(request) ?? begin(request, reply)
    if (verdict === null) done()
    else if (verdict instanceof Promise) endLater(verdict, request, reply, done)
    else end(verdict, request, reply, done)
  }
}

// No other code catches errors after an asynchronous step. Fastify itself throws if it is already responding with an error.
function passError (error: unknown, request: FastifyRequest, done: HookHandlerDoneFunction): void {
  try {
    done(Object(error))
  } catch (failure) {
    request.log.error({ err: shownError(failure) }, 'an error after the decision of the quota could not be sent as a response')
  }
}
