import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { logFailure } from './log.js'
import { decide, decideUnmatched } from './permit/decide.js'
import type { Ledger } from './permit/ledger.js'
import type { Permit } from './permit/permit.js'
import type { Quota } from './permit/quota.js'
import { stateOf } from './permit/request-state.js'
import { proceed } from './promises.js'
import { setRateLimitHeaders } from './refusal/rate-limit-headers.js'
import { sendRefusal, type RefusalBodyWriter } from './refusal/refusal.js'
import type { RequestMatcher } from './subject/request-matcher.js'

/** Options that change the responses of the hook. */
export interface ResponseOptions {
  readonly rateLimitHeaders?: 'draft-10' | undefined
  readonly refusalBody?: RefusalBodyWriter | undefined
}

/**
 * Creates the hook that takes each request through all steps: quotas, limits, callers, stores, and
 * refusal or admission.
 */
export function createQuotaHook (
  requests: RequestMatcher<Quota>,
  quotas: readonly Quota[],
  ledger: Ledger,
  options: ResponseOptions
) {
  const { rateLimitHeaders, refusalBody } = options

  /** Returns nothing if the request is subject to no quota. */
  function begin (
    request: FastifyRequest,
    reply: FastifyReply
  ): Permit | Promise<Permit> | undefined {
    const matches = matchesOf(request)
    if (matches?.length === 0) return undefined
    const state = stateOf(request)
    const decided =
      matches === null ? decideUnmatched(quotas, request, ledger) : decide(matches, request, ledger)
    state.permit = proceed(decided, (permit) => {
      state.permit = permit
      state.assigned = undefined
      state.endWithResponse(permit)
      if (rateLimitHeaders !== undefined) setRateLimitHeaders(reply, permit.decidedByStores)
      return permit
    })
    return state.permit
  }

  /** Returns null if the mark of the route fails. */
  function matchesOf (request: FastifyRequest) {
    try {
      return requests.match(request)
    } catch (error) {
      logFailure(
        request.log,
        error,
        'the quotas of the request could not be determined; the request is not counted'
      )
      return null
    }
  }

  function finish (
    { refusal }: Permit,
    request: FastifyRequest,
    reply: FastifyReply,
    done: HookHandlerDoneFunction
  ): void {
    if (refusal === null) return done()
    // The host may have responded during an asynchronous step, for example because its own time
    // limit was exceeded.
    if (!reply.sent) sendRefusal(refusal, request, reply, refusalBody)
  }

  return function quotaHook (
    request: FastifyRequest,
    reply: FastifyReply,
    done: HookHandlerDoneFunction
  ): void {
    const state = stateOf(request)
    state.reply = reply
    // After reply.callNotFound(), a request passes through the hooks again. It is decided only
    // once.
    const permit = state.permit ?? begin(request, reply)
    if (permit === undefined) return done()
    if (!(permit instanceof Promise)) return finish(permit, request, reply, done)
    permit
      .then((permit) => {
        finish(permit, request, reply, done)
      })
      .catch((error: unknown) => {
        // No other code catches errors after an asynchronous step. Fastify itself throws if it is
        // already responding with an error.
        try {
          done(Object(error))
        } catch (failure) {
          logFailure(
            request.log,
            failure,
            'an error after the decision of the quota could not be sent as a response'
          )
        }
      })
  }
}
