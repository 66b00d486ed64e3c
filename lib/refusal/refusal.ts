import { validateHeaderValue } from 'node:http'
import type { Http2ServerResponse } from 'node:http2'
import type { FastifyRequest } from 'fastify'
import { logFailure } from '../log.js'
import type { QuotaDecision } from '../permit/decision.js'
import type { Refusal } from '../permit/decide.js'
import { ignoreRejection } from '../promises.js'

/** The body of a refusal, as returned by the host's function `refusalBody`. */
export interface RefusalBody {
  /** The value of the `Content-Type` header. */
  readonly contentType: string
  /** The text of the body. */
  readonly body: string
}

/**
 * The option `refusalBody`: writes the body of a refusal and its content type. The status and the
 * other headers do not change. As in `OfRequest`, the request can be annotated with any type.
 */
export interface RefusalBodyWriter {
  /** Writes the body. */
  <Request extends FastifyRequest>(decision: QuotaDecision, request: Request): RefusalBody
  /** Writes the body. */
  <Request extends FastifyRequest>(decision: QuotaDecision, request: Request): RefusalBody
}

/** A reply of any Fastify server: with HTTP/1 or HTTP/2, of any route, with any type provider. */
export interface AnyReply {
  /** Whether a response has been sent, or the host has taken it over. */
  readonly sent: boolean
  /** The response of Node.js, with HTTP/1 or HTTP/2. */
  readonly raw: Pick<Http2ServerResponse, 'headersSent' | 'setHeader' | 'removeHeader'>
  /** The status code. */
  statusCode: number
  /** Sets headers. */
  headers(values: Readonly<Record<string, string>>): unknown
  /** Sets the serializer of this response. */
  serializer(serialize: (body: unknown) => string): unknown
  /** Sends the body, which need not have the type that the route declares for its own. */
  send(body: unknown): unknown
}

const statuses = {
  unauthenticated: 401,
  rejected: 429,
  unavailable: 503,
  admitted: 503,
  disabled: 503
} as const
const mediaType = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/

/**
 * Sends a refusal, byte for byte the same whatever the route's schema and serializer
 * (docs/rules.md, "Refusal").
 */
export function sendRefusal (
  { decision, wait }: Refusal,
  request: FastifyRequest,
  reply: AnyReply,
  write?: RefusalBodyWriter
): void {
  const status = statuses[decision.outcome]
  const { contentType, body } = hostBody(write, decision, request) ?? ownBody(status, decision)
  const retryAfter = status === 401 ? {} : { 'retry-after': String(secondsOf(wait)) }
  reply.statusCode = status
  reply.headers({ 'content-type': contentType, 'cache-control': 'no-store', ...retryAfter })
  // After an `onSend` hook has failed, Fastify sends the response of an error handler with the same
  // serializer.
  reply.serializer((body) => (typeof body === 'string' ? body : JSON.stringify(body)))
  reply.send(body)
}

/**
 * Returns how many seconds to wait for milliseconds (docs/rules.md, "Refusal"); 1 if they are
 * unknown.
 */
export function secondsOf (wait: number | null): number {
  return Math.max(1, Math.ceil((wait ?? 0) / 1000))
}

/**
 * Returns the body from the host's function, if there is one. If it fails or returns an invalid
 * body, logs an error and returns null.
 */
function hostBody (
  write: RefusalBodyWriter | undefined,
  decision: QuotaDecision,
  request: FastifyRequest
): RefusalBody | null {
  if (write === undefined) return null
  try {
    const written = write(decision, request)
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

function ownBody (status: 401 | 429 | 503, { limit, unit, period }: QuotaDecision): RefusalBody {
  const amount = period === null ? 'requests at once' : `${unit} per ${period}`
  const errors = {
    401: 'Authentication is required for this LLM operation.',
    429: `Rate limit exceeded. Maximum ${limit} LLM ${amount}. Please wait.`,
    503: 'The request quota is unavailable. Please try again.'
  }
  return {
    contentType: 'application/json; charset=utf-8',
    body: JSON.stringify({ error: errors[status], status })
  }
}
