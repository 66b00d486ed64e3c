import type { FastifyReply } from 'fastify'
import type { QuotaDecision } from '../decision/decision.js'
import { windowSeconds } from '../decision/quota.js'
import { secondsUntilEnd } from './retry-after.js'

// The largest integer in a structured field (RFC 9651, section 3.3.1). A limit can be larger.
const largestInteger = 999_999_999_999_999

/**
 * Adds the headers `RateLimit-Policy` and `RateLimit` to the response if the request was admitted or rejected
 * (draft-ietf-httpapi-ratelimit-headers-10).
 *
 * They are set on the raw response, so they are also sent if the handler calls `reply.hijack()`. A handler can replace them.
 */
export function setRateLimitFields (reply: FastifyReply, { quota, limit, count, windowRemaining }: QuotaDecision): void {
  if (count === null || windowRemaining === null || reply.raw.headersSent) return
  reply.raw.setHeader('RateLimit-Policy', `"${quota}";q=${Math.min(limit, largestInteger)};w=${windowSeconds}`)
  reply.raw.setHeader('RateLimit', `"${quota}";r=${Math.min(Math.max(0, limit - count), largestInteger)};t=${secondsUntilEnd(windowRemaining)}`)
}
