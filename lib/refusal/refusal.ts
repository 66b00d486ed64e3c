import { validateHeaderValue } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { AnyReply } from '../any-request.js'
import { logFailure } from '../log.js'
import type { QuotaDecision } from '../permit/decision.js'
import type { QuotaInfo } from '../permit/quota.js'
import { ignoreRejection } from '../promises.js'
import { required } from '../required.js'

/** The body of a refusal, as returned by the host's function `refusalBody`. */
export interface RefusalBody {
  /** The value of the `Content-Type` header. */
  readonly contentType: string
  /** The text of the body. */
  readonly body: string
}

/**
 * The option `refusalBody`: writes the body of a refusal and its content type, or returns null for
 * the quota's own body. The status and the other headers do not change: the status is 401 if the
 * outcome is `unauthenticated`, 429 if it is `rejected`, and otherwise 503. As in `OfRequest`, the
 * request can be annotated with any type.
 */
export interface RefusalBodyWriter {
  /** Writes the body. */
  <Request extends FastifyRequest>(decision: QuotaDecision, request: Request): RefusalBody | null
  /** Writes the body. */
  <Request extends FastifyRequest>(decision: QuotaDecision, request: Request): RefusalBody | null
}

/** The status of a refusal: no caller, over the limit, or not available. */
type RefusalStatus = 401 | 429 | 503

/** The content type of the bodies of this package. */
export const jsonType = 'application/json; charset=utf-8'

/** The status of a refusal, by the outcome of its decision. */
export const statuses = {
  unauthenticated: 401,
  rejected: 429,
  unavailable: 503,
  // No decision with one of these outcomes refuses a request.
  admitted: 503,
  disabled: 503
} as const satisfies Readonly<Record<QuotaDecision['outcome'], RefusalStatus>>

/** A media type, with or without parameters (RFC 9110, section 8.3.1). */
const mediaType = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/

/**
 * Sends a refusal, byte for byte the same whatever the route's schema and serializer
 * (docs/rules.md, "Refusal").
 */
export function sendRefusal (
  decision: QuotaDecision,
  request: FastifyRequest,
  reply: AnyReply,
  write?: RefusalBodyWriter
): void {
  const status = statuses[decision.outcome]
  const { contentType, body } = hostBody(write, decision, request) ?? ownBody(status, decision)
  const headers: Record<string, string> = {
    'content-type': contentType,
    'cache-control': 'no-store'
  }
  if (decision.retryAfter !== null) headers['retry-after'] = String(decision.retryAfter)
  reply.statusCode = status
  reply.headers(headers)
  // After an `onSend` hook has failed, Fastify sends the response of an error handler with the same
  // serializer.
  reply.serializer((sent) => (typeof sent === 'string' ? sent : JSON.stringify(sent)))
  reply.send(body)
}

/**
 * Returns the body from the host's function; null if there is none, or if it returns null. If it
 * fails or returns an invalid body, logs an error and returns null.
 */
function hostBody (
  write: RefusalBodyWriter | undefined,
  decision: QuotaDecision,
  request: FastifyRequest
): RefusalBody | null {
  if (write === undefined) return null
  try {
    const written = write(decision, request)
    if (written === null) return null
    ignoreRejection(written)
    const { contentType, body } = written
    if (typeof contentType !== 'string' || !mediaType.test(contentType)) {
      throw new TypeError('its contentType is not a media type')
    }
    if (typeof body !== 'string') throw new TypeError('its body is not a string')
    validateHeaderValue('content-type', contentType)
    return { contentType, body }
  } catch (error) {
    logFailure(request.log, error, "refusalBody failed; the refusal has the quota's own body")
    return null
  }
}

function ownBody (status: RefusalStatus, decision: QuotaDecision): RefusalBody {
  // `JSON.stringify` would cost more than everything else here, and no message contains a character
  // that JSON escapes.
  const body = `{"error":"${messageOf(status, decision)}","status":${status}}`
  return { contentType: jsonType, body }
}

/** Returns what a refusal says. */
export function messageOf (status: RefusalStatus, decision: QuotaDecision): string {
  if (status === 401) return 'Authentication is required for this LLM operation.'
  if (status === 503) return 'The request quota is unavailable. Please try again.'
  const maximum = maximumIn(decision)
  if (decision.retryAfter !== null) return `Rate limit exceeded. Maximum ${maximum}. Please wait.`
  // Waiting does not help.
  if (decision.limit === 0) return `Rate limit exceeded. Maximum ${maximum}.`
  return `Rate limit exceeded. The request needs more than the maximum of ${maximum}.`
}

function maximumIn (decision: QuotaDecision): string {
  const { limit, unit } = decision
  if (unit === 'concurrent-requests') return `${limit} concurrent LLM requests`
  return `${limit} LLM ${unit} per ${windowInWords(decision)}`
}

/** Returns the window of a quota in words, such as `minute` or `90 seconds`. */
export function windowInWords ({ period, window }: Pick<QuotaInfo, 'period' | 'window'>): string {
  return period ?? `${required(window, 'the length of a window') / 1000} seconds`
}
