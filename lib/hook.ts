import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { formatType } from './errors.js'
import { logFailure } from './log.js'
import { Permit } from './permit/permit.js'
import type { Quota } from './permit/quota.js'
import { stateOf, type RequestState } from './permit/request-state.js'
import { referenceOf, Requester, type PermitServer } from './permit/requester.js'
import { refuseUnmatched, takePermit } from './permit/take-permit.js'
import type { Eventual } from './promises.js'
import type { Responder } from './refusal/responder.js'
import { operationOf } from './subject/operation.js'
import type { Match, RequestMatcher } from './subject/request-matcher.js'

/** Creates the hook, which takes each request through all steps, to its admission or refusal. */
export function createQuotaHook (
  requests: RequestMatcher<Quota>,
  server: PermitServer,
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
    // After reply.callNotFound(), a request passes the hooks again. It is decided only once.
    const matches = state.pending === undefined ? matchesOf(request) : null
    if (matches?.length === 0) return done()
    // A hook of the host can have begun a stream of events, which the handler continues.
    const hadBegun = reply.raw.headersSent
    // Whether the host has responded since, for example because its own time limit was exceeded.
    const hasResponded = (): boolean => reply.sent || (reply.raw.headersSent && !hadBegun)
    state.pending ??= decide(matches, state, hasResponded)
    const permit = state.pending
    if (permit instanceof Permit) admitOrRefuse(permit, state, request, reply, done)
    else admitLater(permit, state, request, reply, hasResponded, done)
  }

  /** Returns null if the mark of the route fails. */
  function matchesOf (request: FastifyRequest): readonly Match<Quota>[] | null {
    try {
      return requests.match(request)
    } catch (error) {
      server.quotaLog.markFailed(error, request.log)
      return null
    }
  }

  /** @param matches Null if the mark of the route failed. */
  function decide (
    matches: readonly Match<Quota>[] | null,
    state: RequestState,
    hasResponded: () => boolean
  ): Eventual<Permit> {
    const { request } = state
    const requester = new Requester(server, {
      request,
      callers: null,
      reference: referenceOf(request),
      log: request.log,
      response: state
    })
    if (matches !== null) return takePermit(matches, requester, null, hasResponded)
    return refuseUnmatched(requests.quotas, operationOf(request), requester)
  }

  /** Waits for the decision. Never rejects. */
  async function admitLater (
    deciding: PromiseLike<Permit>,
    state: RequestState,
    request: FastifyRequest,
    reply: FastifyReply,
    hasResponded: () => boolean,
    done: HookHandlerDoneFunction
  ): Promise<void> {
    const permit = await deciding
    if (hasResponded() || permit.isAbandoned) {
      // The operation does not run.
      state.permit ??= permit
      permit.cancel()
    } else {
      admitOrRefuse(permit, state, request, reply, done)
    }
  }

  /** Goes on to the handler if the request is admitted, and otherwise refuses it. Never throws. */
  function admitOrRefuse (
    permit: Permit,
    state: RequestState,
    request: FastifyRequest,
    reply: FastifyReply,
    done: HookHandlerDoneFunction
  ): void {
    try {
      if (state.permit === undefined) {
        state.permit = permit
        permit.follow()
        if (responder.hasHeaders) responder.setHeaders(permit, reply)
      }
      if (permit.refusal === null) done()
      else responder.sendRefusal(permit.refusal, request, reply)
    } catch (error) {
      passOn(error, request, done)
    }
  }

  /** Leaves an error to Fastify, which itself throws if it is responding to another error. */
  function passOn (error: unknown, request: FastifyRequest, done: HookHandlerDoneFunction): void {
    try {
      done(error instanceof Error ? error : new TypeError(`${formatType(error)} was thrown`))
    } catch (failure) {
      const message = 'an error after the decision of the quota could not be sent as a response'
      logFailure(request.log, failure, message)
    }
  }
}
