import type { FastifyContextConfig, FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { shownError } from './errors.js'
import { publishDecision, quotaDecisions } from './decision/decision-channel.js'
import type { QuotaDecision } from './decision/decision.js'
import { decide } from './decision/decide.js'
import { MistakeWarnings } from './decision/mistake-warnings.js'
import type { Quota } from './decision/quota.js'
import { claimRequest, showDecision, type RequestState } from './decision/request-decision.js'
import { Pending } from './pending.js'
import type { RefusalBodyWriter } from './refusal/host-body.js'
import { setRateLimitFields } from './refusal/rate-limit-fields.js'
import { callsForRefusal, sendRefusal } from './refusal/refusal.js'
import type { Methods, RequestMatch, RequestMatcher } from './subject/request-matcher.js'

/** Options that change the responses of the hook. */
export interface AnswerOptions {
  readonly rateLimitHeaders?: 'draft-10' | undefined
  readonly refusalBody?: RefusalBodyWriter | undefined
}

/** Creates the hook that takes each request through all steps: operation, limit, caller, store, and refusal or admission. */
export function createQuotaHook (requests: RequestMatcher<Quota>, { rateLimitHeaders, refusalBody }: AnswerOptions) {
  const warnings = new MistakeWarnings()
  const sendsFields = rateLimitHeaders !== undefined

  function conclude (state: RequestState, reply: FastifyReply, done: HookHandlerDoneFunction, decision: QuotaDecision): void {
    showDecision(state, decision)
    // Most requests need no more than this, and V8 compiles a small function into the hook.
    if (decision.outcome === 'admitted' && !sendsFields && !quotaDecisions.hasSubscribers) done()
    else announceAndAnswer(reply, done, decision)
  }

  function announceAndAnswer (reply: FastifyReply, done: HookHandlerDoneFunction, decision: QuotaDecision): void {
    const { request } = reply
    // Subscribers and handlers get the decision object itself. Changes that they make to it must not admit the request.
    const isRefusal = callsForRefusal(decision)
    publishDecision(request, decision)
    if (decision.reason !== null) warnings.warn(request.log, decision)
    if (sendsFields && decision.enforced) setRateLimitFields(reply, decision)
    if (isRefusal) refuse(reply, decision, refusalBody)
    else done()
  }

  function concludeLater (state: RequestState, reply: FastifyReply, done: HookHandlerDoneFunction, decision: Pending<QuotaDecision>): void {
    const fail = (error: unknown): void => passError(reply.request, done, error)
    decision.then((decision) => {
      try {
        conclude(state, reply, done, decision)
      } catch (error) {
        fail(error)
      }
    }, fail)
  }

  // The host's error handler answers the error, but might not log it.
  function find (request: FastifyRequest, route: FastifyContextConfig, pattern: string | undefined, methods: Methods): RequestMatch<Quota> | null {
    try {
      return requests.match(request, route, pattern, methods)
    } catch (error) {
      request.log.error({ err: shownError(error) }, 'the quota of the request is unknown; the request is not admitted')
      throw error
    }
  }

  return function quotaHook (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
    // Read once, because Fastify creates this object each time it is read.
    const { config, url: pattern, method: methods } = request.routeOptions
    const known = requests.known(request, config, pattern)
    const match = known === undefined ? find(request, config, pattern, methods) : known
    // After reply.callNotFound() in a handler, the request passes through the hooks again.
    const state = match === null ? null : claimRequest(request)
    if (match === null || state === null) return done()
    const decision = decide(match.quota, request, match.operation)
    if (decision instanceof Pending) concludeLater(state, reply, done, decision)
    else conclude(state, reply, done, decision)
  }
}

function refuse (reply: FastifyReply, decision: QuotaDecision, refusalBody: RefusalBodyWriter | undefined): void {
  const { request } = reply
  logRefusal(request, decision)
  // The host may have answered during an asynchronous step, for example because its own time limit was exceeded.
  if (!reply.sent) sendRefusal(decision, request, reply, refusalBody)
}

// No other code catches errors after an asynchronous step. Fastify itself throws if it is already answering an error.
function passError (request: FastifyRequest, done: HookHandlerDoneFunction, error: unknown): void {
  try {
    // Fastify accepts any thrown value as an error.
    Reflect.apply(done, undefined, [error])
  } catch (failure) {
    request.log.error({ err: shownError(failure) }, 'an error after the decision of the quota could not be answered')
  }
}

// Avoids building a log line that is not written.
function logRefusal ({ log }: FastifyRequest, { outcome, reason, quota, operation, callerKey }: QuotaDecision): void {
  if (log.level !== 'debug' && log.level !== 'trace') return
  log.debug({ outcome, reason, quota, operation, caller: callerKey?.slice(0, 8) }, 'the quota answers with a refusal')
}
