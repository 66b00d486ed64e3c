import type { FastifyReply, FastifyRequest } from 'fastify'
import type { QuotaDecision } from '../decision/decision.js'
import { hostBody, type RefusalBodyWriter } from './host-body.js'
import { jsonContentType, rejectedBody, unauthenticatedBody, unavailableBody } from './refusal-body.js'
import { secondsUntilEnd } from './retry-after.js'

/** Whether the decision requires a refusal instead of the operation. */
export function callsForRefusal ({ enforced, outcome }: QuotaDecision): boolean {
  return outcome !== 'admitted' && outcome !== 'disabled' && enforced
}

/**
 * Sends the refusal for a decision. The body is the same, byte for byte, regardless of the route's schema and serializer
 * (docs/rules.md, "Refusal").
 *
 * @param write The host's function for the body; undefined for the quota's own body.
 */
export function sendRefusal (decision: QuotaDecision, request: FastifyRequest, reply: FastifyReply, write: RefusalBodyWriter | undefined): void {
  // Read before the host's function gets the decision, because that function could change the decision.
  const status = statusOf(decision)
  const seconds = status === 401 ? null : retryAfter(decision)
  const own = ownBody(decision)
  const written = write === undefined ? null : hostBody(write, decision, request)
  reply.code(status).type(written?.contentType ?? jsonContentType).header('cache-control', 'no-store')
  if (seconds !== null) reply.header('retry-after', seconds)
  reply.serializer(unchanged).send(written?.body ?? own)
}

function statusOf ({ outcome }: QuotaDecision): number {
  if (outcome === 'rejected') return 429
  return outcome === 'unavailable' ? 503 : 401
}

// After a failure of the store, windowRemaining is null and the result is 1: the store may answer the next request.
function retryAfter ({ windowRemaining }: QuotaDecision): string {
  return String(secondsUntilEnd(windowRemaining ?? 0))
}

function ownBody ({ outcome, limit }: QuotaDecision): string {
  if (outcome === 'rejected') return rejectedBody(limit)
  return outcome === 'unavailable' ? unavailableBody : unauthenticatedBody
}

function unchanged (body: unknown): string {
  return String(body)
}
