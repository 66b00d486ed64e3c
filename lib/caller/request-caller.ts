import type { FastifyRequest } from 'fastify'
import { type Authentication, isAuthentication } from './authentication.js'
import { callerKey, tokenKey } from './caller.js'

/** Finds the key of the caller that sent a request; null where nobody can be named (specification, section 5). */
export type CallerReader = (request: FastifyRequest) => string | null

/** The caller as the host's own function tells it, else as `request.user` does. */
export function callerOf (authentication: ((request: FastifyRequest) => Authentication | null | undefined) | undefined): CallerReader {
  if (authentication === undefined) return callerOfUser
  return (request) => callerKey(authentication(request))
}

// Nothing in request.user is no authentication, one made by this package is itself, and anything else is the verified
// claims that @fastify/jwt put there.
function callerOfUser (request: FastifyRequest): string | null {
  const user: unknown = 'user' in request ? request.user : undefined
  if (typeof user !== 'object' || user === null) return null
  return isAuthentication(user) ? callerKey(user) : tokenKey(user)
}
