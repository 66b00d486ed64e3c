import type { Http2ServerResponse } from 'node:http2'
import type { FastifyRequest } from 'fastify'
import { isObject } from './option-checks.js'

/** A request of any Fastify server: with HTTP/1 or HTTP/2, of any route, with any type provider. */
export interface AnyRequest extends Pick<FastifyRequest, 'id' | 'method' | 'url' | 'log'> {
  /** The request of Node.js. */
  readonly raw: object
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

// A function of this package that takes an `AnyRequest` is typed as a method,
// `{ method(…) }['method']`, because TypeScript compares the parameters of methods in both
// directions: so it can be written for a `FastifyRequest`, which each of these requests is when the
// program runs.

/**
 * A function of the host that receives a request. Without an annotation, its parameter is a
 * `FastifyRequest`. It can be annotated with the requests of a typed route, such as
 * `FastifyRequest<{ Body: Batch }>`, or of an HTTP/2 server.
 *
 * TypeScript compares a function with several signatures without the constraints of their type
 * parameters, so that it accepts any annotation of the parameter, and still checks the result.
 * Therefore, the signature is declared twice.
 */
export interface OfRequest<Result> {
  /** Receives the request. */
  <Request extends FastifyRequest>(request: Request): Result
  /** Receives the request. */
  <Request extends FastifyRequest>(request: Request): Result
}

/** As `OfRequest`, of a permit that need not have a request. */
export interface OfRequestOrNone<Result> {
  /** Receives the request; null for a permit without one. */
  <Request extends FastifyRequest>(request: Request | null): Result
  /** Receives the request; null for a permit without one. */
  <Request extends FastifyRequest>(request: Request | null): Result
}

/** Whether a value can be a request. */
export function isRequest (value: unknown): value is FastifyRequest {
  if (!isObject(value) || !('raw' in value)) return false
  return 'method' in value && typeof value.method === 'string'
}
