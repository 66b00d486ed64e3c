import type { FastifyRequest } from 'fastify'
import { OptionError } from './errors.js'
import { isObject } from './option-checks.js'

/** A request of any Fastify server: with HTTP/1 or HTTP/2, of any route, with any type provider. */
export interface AnyRequest extends Pick<FastifyRequest, 'id' | 'method' | 'url' | 'log'> {
  /** The request of Node.js. */
  readonly raw: object
}

// The types of functions that take such a request are those of methods,
// `{ method(…) }['method']`, because TypeScript compares the parameters of methods in both
// directions: so the functions can be written for a `FastifyRequest`, which each of these requests
// is when the program runs.

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

/** Throws an `OptionError` unless the value can be a request. */
export function assertRequest (value: unknown, rule = 'must be a request'): void {
  if (isObject(value) && 'raw' in value && 'method' in value) return
  throw new OptionError('request', rule, value)
}
