import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { Authentication } from '../caller/authentication.js'

/** Who asks for a permit: a request, or an authentication without one. */
export interface Requester {
  /** Null if the permit is for an authentication. */
  readonly request: FastifyRequest | null
  /** Null if the permit is for a request. */
  readonly authentication: Authentication | null
  readonly log: FastifyBaseLogger
}

/**
 * Returns the request that a host's function reads.
 *
 * @throws {TypeError} If the permit is for an authentication.
 */
export function requestFor (option: string, { request }: Requester): FastifyRequest {
  if (request === null) throw new TypeError(`there is no request for the function ${option}`)
  return request
}

/** Returns a request as a requester. */
export function requesterOf (request: FastifyRequest): Requester {
  return { request, authentication: null, log: request.log }
}
