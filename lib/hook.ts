import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { format } from './errors.js'
import { logFailure } from './log.js'
import type { OpenPermits } from './permit/open-permits.js'
import type { Permit } from './permit/permit.js'
import type { Quota } from './permit/quota.js'
import { stateOf } from './permit/request-state.js'
import { requesterOf } from './permit/requester.js'
import { refuseUnmatched, takePermit } from './permit/take-permit.js'
import type { Responder } from './refusal/responder.js'
import type { Match, RequestMatcher } from './subject/request-matcher.js'

/** Creates the hook, which takes each request through all steps, to its admission or refusal. */
export function createQuotaHook (
  requests: RequestMatcher<Quota>,
  open: OpenPermits,
  responder: Responder
) {
  // Not an async function, because Fastify goes on to the handler when it returns: after a refusal,
  // `reply.sent` is true only when asynchronous `onSend` hooks of the host have run.
  return function quotaHook (
    request: FastifyRequest,
    reply: FastifyReply,
    done: HookHandlerDoneFunction
  ): void {
    const state = stateOf(request)
    state.reply = reply
    const hasBegun = reply.raw.headersSent
    // After reply.callNotFound(), a request passes the hooks again. It is decided only once.
    if (state.pending === undefined) {
      const matches = matchesOf(request)
      if (matches?.length === 0) return done()
      state.pending =
        matches === null
          ? refuseUnmatched(requests.quotas, request, requests.paths, open)
          : takePermit(matches, requesterOf(request), open)
    }
    admitOrRefuse(state.pending, request, reply, hasBegun, done)
  }

  /** Returns null if the mark of the route fails. */
  function matchesOf (request: FastifyRequest): readonly Match<Quota>[] | null {
    try {
      return requests.match(request)
    } catch (error) {
      const message =
        'the quotas of the request could not be determined; the request is not counted'
      logFailure(request.log, error, message)
      return null
    }
  }

  /**
   * Goes on to the handler if the request is admitted, and otherwise refuses it. Never rejects.
   *
   * @param hasBegun Whether the host had begun to respond before.
   */
  async function admitOrRefuse (
    pending: Promise<Permit>,
    request: FastifyRequest,
    reply: FastifyReply,
    hasBegun: boolean,
    done: HookHandlerDoneFunction
  ): Promise<void> {
    try {
      const permit = await pending
      const state = stateOf(request)
      if (state.permit === undefined) {
        state.permit = permit
        state.assigned = undefined
        state.endWithResponse(permit, request)
        responder.setHeaders(permit, reply)
      }
      // The host may have responded meanwhile, for example because its own time limit was exceeded.
      const hasResponded = reply.sent || (reply.raw.headersSent && !hasBegun)
      if (hasResponded) return
      if (permit.refusal === null) done()
      else responder.sendRefusal(permit, request, reply)
    } catch (error) {
      passOn(error, request, done)
    }
  }

  /** Leaves an error to Fastify, which itself throws if it is responding to another error. */
  function passOn (error: unknown, request: FastifyRequest, done: HookHandlerDoneFunction): void {
    try {
      done(error instanceof Error ? error : new TypeError(`${format(error)} was thrown`))
    } catch (failure) {
      const message = 'an error after the decision of the quota could not be sent as a response'
      logFailure(request.log, failure, message)
    }
  }
}
