import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { logFailure } from './log.js'
import { decide, decideUnmatched } from './permit/decide.js'
import type { Ledger } from './permit/ledger.js'
import type { Permit } from './permit/permit.js'
import type { Quota } from './permit/quota.js'
import { endWithResponse, findPermit, keepPermit, keepReply } from './permit/request-state.js'
import { proceed } from './promises.js'
import { setRateLimitHeaders } from './refusal/rate-limit-headers.js'
import { sendRefusal, type RefusalBodyWriter } from './refusal/refusal.js'
import type { RequestMatcher } from './subject/request-matcher.js'

/** Options that change the responses of the hook. */
export interface ResponseOptions {
  readonly rateLimitHeaders?: 'draft-10' | undefined
  readonly refusalBody?: RefusalBodyWriter | undefined
}

/** Creates the hook that takes each request through all steps: quotas, limits, callers, stores, and refusal or admission. */
export function createQuotaHook (requests: RequestMatcher<Quota>, quotas: readonly Quota[], ledger: Ledger, options: ResponseOptions) {
  const { rateLimitHeaders, refusalBody } = options

  /** Returns nothing if the request is subject to no quota. */
  function begin (request: FastifyRequest, reply: FastifyReply): Permit | Promise<Permit> | undefined {
    keepReply(request, reply)
    const matches = matchesOf(request)
    if (matches?.length === 0) return undefined
    const decided = matches === null ? decideUnmatched(quotas, request, ledger) : decide(matches, request, ledger)
    const permit = proceed(decided, (permit) => {
      keepPermit(request, permit)
      endWithResponse(permit)
      if (rateLimitHeaders !== undefined) setRateLimitHeaders(reply, permit.decidedByStores)
      return permit
    })
    if (permit instanceof Promise) keepPermit(request, permit)
    return permit
  }

  /** Returns null if the mark of the route fails. */
  function matchesOf (request: FastifyRequest) {
    try {
      return requests.match(request)
    } catch (error) {
      logFailure(request.log, error, 'the quotas of the request could not be determined; the request is not counted')
      return null
    }
  }

  function finish ({ refusal }: Permit, request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
    if (refusal === null) return done()
    // The host may have responded during an asynchronous step, for example because its own time limit was exceeded.
    if (!reply.sent) sendRefusal(refusal, request, reply, refusalBody)
  }

  async function finishLater (pending: Promise<Permit>, request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) {
    try {
      finish(await pending, request, reply, done)
    } catch (error) {
      passError(error, request, done)
    }
  }

  return function quotaHook (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
    // After reply.callNotFound(), a request passes through the hooks again. It is decided only once.
    const permit = findPermit(request) ?? begin(request, reply)
    if (permit === undefined) done()
    else if (permit instanceof Promise) finishLater(permit, request, reply, done)
    else finish(permit, request, reply, done)
  }
}

// No other code catches errors after an asynchronous step. Fastify itself throws if it is already responding with an error.
function passError (error: unknown, request: FastifyRequest, done: HookHandlerDoneFunction): void {
  try {
    done(Object(error))
  } catch (failure) {
    logFailure(request.log, failure, 'an error after the decision of the quota could not be sent as a response')
  }
}
