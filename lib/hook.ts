import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { formatType } from './errors.js'
import { logFailure } from './log.js'
import { Permit } from './permit/permit.js'
import type { Quota } from './permit/quota.js'
import { stateOf, type RequestState } from './permit/request-state.js'
import { Requester, type PermitServer } from './permit/requester.js'
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
    // A hook of the host can have begun a stream of events, which the handler continues.
    const hadBegun = reply.raw.headersSent
    // Whether the host has responded since, for example because its own time limit was exceeded.
    const hasResponded = (): boolean => reply.sent || (reply.raw.headersSent && !hadBegun)
    // After reply.callNotFound(), a request passes the hooks again. It is decided only once.
    const permit = state.pending ?? decide(state, hasResponded)
    if (permit === null) return done()
    state.pending = permit
    if (permit instanceof Permit) admitOrRefuse(permit, state, reply, done)
    else admitLater(permit, state, reply, hasResponded, done)
  }

  /** Decides on a request. Returns null if it is subject to no quota. */
  function decide (state: RequestState, hasResponded: () => boolean): Eventual<Permit> | null {
    const { request } = state
    /** Null if the mark of the route fails. */
    let matches: readonly Match<Quota>[] | null = null
    try {
      matches = requests.match(request)
    } catch (error) {
      server.quotaLog.markFailed(error, request.log)
    }
    if (matches?.length === 0) return null
    const requester = new Requester(server, {
      request,
      callers: null,
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
      admitOrRefuse(permit, state, reply, done)
    }
  }

  /** Goes on to the handler if the request is admitted, and otherwise refuses it. Never throws. */
  function admitOrRefuse (
    permit: Permit,
    state: RequestState,
    reply: FastifyReply,
    done: HookHandlerDoneFunction
  ): void {
    const { request } = state
    try {
      if (state.permit === undefined) {
        state.permit = permit
        permit.follow()
        if (responder.hasHeaders) responder.setHeaders(permit, reply)
      }
      if (permit.refusal === null) done()
      else if (reply.raw.headersSent) breakOff(request, reply)
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

  /**
   * Breaks off a response that a hook of the host has begun, as Fastify does if it can send no
   * error. Fastify 5.0.0 would leave it open.
   */
  function breakOff (request: FastifyRequest, reply: FastifyReply): void {
    const error = new Error('the quota refuses a request whose response has begun')
    server.quotaLog.refusalNotSent(error, request.log)
    reply.hijack()
    reply.raw.destroy(error)
  }
}
