import type { FastifyRequest } from 'fastify'
import type { QuotaDecision } from '../permit/decision.js'
import type { Refusal } from '../permit/permit.js'
import type { Quota } from '../permit/quota.js'
import { hostBody, type RefusalBodyWriter } from './host-body.js'

/** The response of Node.js, with HTTP/1 or HTTP/2. */
export interface AnyRawReply {
  /** Whether headers were sent. */
  readonly headersSent: boolean
  /** Sets a header. */
  setHeader (name: string, value: string): unknown
  /** Removes a header. */
  removeHeader (name: string): unknown
}

/** A reply of any Fastify server: with HTTP/1 or HTTP/2, of any route, with any type provider. */
export interface AnyReply {
  /** Whether a response has been sent, or the host has taken it over. */
  readonly sent: boolean
  /** The response of Node.js. */
  readonly raw: AnyRawReply
  /** Sets the status code. */
  code (status: number): unknown
  /** Sets the content type. */
  type (contentType: string): unknown
  /** Sets a header. */
  header (name: string, value: string): unknown
  /** Sets the serializer of this response. */
  serializer (serialize: (body: unknown) => string): unknown
  /** Sends the body. */
  send (body: string): unknown
}

const jsonContentType = 'application/json; charset=utf-8'
const statuses = { unauthenticated: 401, rejected: 429, unavailable: 503, admitted: 503, disabled: 503 } as const
const unauthenticated = bodyOf('Authentication is required for this LLM operation.', 401)
const unavailable = bodyOf('The request quota is unavailable. Please try again.', 503)

/** Sends a refusal, byte for byte the same whatever the route's schema and serializer (docs/rules.md, "Refusal"). */
export function sendRefusal ({ quota, decision }: Refusal, request: FastifyRequest, reply: AnyReply, write?: RefusalBodyWriter): void {
  const status = statuses[decision.outcome]
  const written = write === undefined ? null : hostBody(write, decision, request)
  reply.code(status)
  reply.type(written?.contentType ?? jsonContentType)
  reply.header('cache-control', 'no-store')
  if (status !== 401) reply.header('retry-after', String(secondsUntilEnd(decision.windowRemaining)))
  reply.serializer(serialize)
  reply.send(written?.body ?? ownBody(decision, quota?.period ?? null))
}

/** Returns how many seconds are left of the milliseconds of a window (docs/rules.md, "Refusal"); 1 if there is none. */
export function secondsUntilEnd (windowRemaining: number | null): number {
  return Math.max(1, Math.ceil((windowRemaining ?? 0) / 1000))
}

function ownBody ({ outcome, limit, unit }: QuotaDecision, period: Quota['period'] | null): string {
  if (outcome === 'unauthenticated') return unauthenticated
  if (outcome !== 'rejected') return unavailable
  const amount = period === null ? 'requests at once' : `${unit} per ${period}`
  return bodyOf(`Rate limit exceeded. Maximum ${limit} LLM ${amount}. Please wait.`, statuses.rejected)
}

// No message contains a character that JSON escapes.
function bodyOf (error: string, status: number): string {
  return `{"error":"${error}","status":${status}}`
}

// After an `onSend` hook has failed, Fastify sends the response of an error handler with the same serializer.
function serialize (body: unknown): string {
  return typeof body === 'string' ? body : JSON.stringify(body)
}
