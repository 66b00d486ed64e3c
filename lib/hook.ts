import type { FastifyReply, FastifyRequest } from 'fastify'
import { logFailure } from './log.js'
import type { OpenPermits } from './permit/open-permits.js'
import type { Quota } from './permit/quota.js'
import { stateOf } from './permit/request-state.js'
import { requesterOf } from './permit/requester.js'
import { refuseUnmatched, takePermit } from './permit/take-permit.js'
import type { Responder } from './refusal/responder.js'
import type { Match, RequestMatcher } from './subject/request-matcher.js'

/** Creates the hook, which takes each request through all steps, to its admission or refusal. */
export function createQuotaHook (
  requests: RequestMatcher<Quota>,
  quotas: readonly Quota[],
  open: OpenPermits,
  responder: Responder
) {
  return async function quotaHook (
    request: FastifyRequest,
    reply: FastifyReply
  ): Promise<FastifyReply | undefined> {
    const state = stateOf(request)
    state.reply = reply
    // After reply.callNotFound(), a request passes the hooks again. It is decided only once.
    if (state.pending !== undefined) return undefined
    const matches = matchesOf(request)
    if (matches?.length === 0) return undefined
    state.pending =
      matches === null
        ? refuseUnmatched(quotas, request, requests.paths, open)
        : takePermit(matches, requesterOf(request), open)
    const permit = await state.pending
    state.permit = permit
    state.assigned = undefined
    state.endWithResponse(permit, request)
    responder.setHeaders(permit, reply)
    // The host may have responded meanwhile, for example because its own time limit was exceeded.
    if (permit.refusal === null || reply.sent) return undefined
    responder.sendRefusal(permit, request, reply)
    // Fastify waits until the response has been sent: `onSend` hooks can be asynchronous, and the
    // handler must not run meanwhile.
    return reply
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
}
