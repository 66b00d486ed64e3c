import type { FastifyReply } from 'fastify'
import type { QuotaDecision } from './decision.js'

/** An answer that the quota gives in the operation's place (specification, section 7). */
interface Refusal {
  readonly status: number
  readonly body: string
  /** Seconds, as RFC 9110, section 10.2.3, has it. */
  readonly retryAfter?: number
}

const unauthenticated = { status: 401, body: bodyOf(401, 'Authentication is required for this LLM operation.') }
const unavailable = { status: 503, body: bodyOf(503, 'The request quota is unavailable. Please try again.'), retryAfter: 1 }

/** The refusal that a decision calls for; null where the request passes on. */
export function refusalOf (decision: QuotaDecision): Refusal | null {
  switch (decision.outcome) {
    case 'unauthenticated': return unauthenticated
    case 'unavailable': return unavailable
    case 'rejected': return rejected(decision.limit, Number(decision.windowRemaining))
    default: return null
  }
}

/** Answers a request with a refusal, byte for byte, whatever schema or serializer its route has. */
export function sendRefusal (reply: FastifyReply, { status, body, retryAfter }: Refusal): void {
  reply.code(status).type('application/json; charset=utf-8').header('cache-control', 'no-store')
  if (retryAfter !== undefined) reply.header('retry-after', String(retryAfter))
  reply.serializer(String).send(body)
}

/** The body of a 429. */
export function exhausted (limit: number): string {
  return bodyOf(429, `Rate limit exceeded. Maximum ${limit} LLM requests per minute. Please wait.`)
}

function rejected (limit: number, windowRemaining: number): Refusal {
  return { status: 429, body: exhausted(limit), retryAfter: Math.max(1, Math.ceil(windowRemaining / 1000)) }
}

function bodyOf (status: number, error: string): string {
  return JSON.stringify({ error, status })
}
