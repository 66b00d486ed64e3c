import type { FastifyReply, FastifyRequest } from 'fastify'
import type { QuotaDecision } from '../decision/decision.js'
import { hostBody, type RefusalBodyWriter } from './host-body.js'

const jsonContentType = 'application/json; charset=utf-8'
const statuses = { unauthenticated: 401, rejected: 429, unavailable: 503, admitted: 503, disabled: 503 } as const
const unauthenticated = bodyOf('Authentication is required for this LLM operation.', 401)
const unavailable = bodyOf('The request quota is unavailable. Please try again.', 503)
const units = { requests: 'requests', tokens: 'tokens', 'requests-in-flight': 'requests' } as const
// The body of the latest rejection, since most rejections state the same limit. It saves a tenth of what the quota adds to a rejected request.
let latest: Pick<QuotaDecision, 'limit' | 'unit' | 'window'> & { readonly body: string } = { limit: 0, unit: 'requests', window: null, body: '' }
const periods = new Map<number | null, string>([[null, 'at once'], [60_000, 'per minute'], [3_600_000, 'per hour'], [86_400_000, 'per day']])

/**
 * Sends the refusal for a decision. The body is the same, byte for byte, regardless of the route's schema and serializer
 * (docs/rules.md, "Refusal").
 *
 * @param write The host's function for the body; undefined for the quota's own body.
 */
export function sendRefusal (decision: QuotaDecision, request: FastifyRequest, reply: FastifyReply, write: RefusalBodyWriter | undefined): void {
  const status = statuses[decision.outcome]
  const written = write === undefined ? null : hostBody(write, decision, request)
  reply.code(status).type(written?.contentType ?? jsonContentType).header('cache-control', 'no-store')
  if (status !== 401) reply.header('retry-after', String(secondsUntilEnd(decision.windowRemaining)))
  reply.serializer(unchanged).send(written?.body ?? ownBody(decision))
}

/**
 * Returns the number of seconds until a window ends, rounded up, and at least 1 (docs/rules.md, "Refusal").
 *
 * @param windowRemaining Milliseconds; null if there is no window, because the store failed or requests in flight were counted.
 */
export function secondsUntilEnd (windowRemaining: number | null): number {
  return Math.max(1, Math.ceil((windowRemaining ?? 0) / 1000))
}

function ownBody ({ outcome, limit, unit, window }: QuotaDecision): string {
  if (outcome === 'unauthenticated') return unauthenticated
  if (outcome !== 'rejected') return unavailable
  if (limit !== latest.limit || unit !== latest.unit || window !== latest.window) {
    latest = { limit, unit, window, body: bodyOf(`Rate limit exceeded. Maximum ${limit} LLM ${units[unit]} ${periods.get(window)}. Please wait.`, statuses.rejected) }
  }
  return latest.body
}

// No message contains a character that JSON escapes.
function bodyOf (error: string, status: number): string {
  return `{"error":"${error}","status":${status}}`
}

function unchanged (body: unknown): string {
  return String(body)
}
