import type { FastifyRequest } from 'fastify'
import { shownError } from '../errors.js'
import { Pending } from '../pending.js'
import { isThenable, whenSettled } from '../thenable.js'
import { type Authentication, isAuthentication } from './authentication.js'
import { keyOf, keyOfClaims } from './caller-key.js'
import { noAuthentication, type Unidentified } from './unidentified.js'

type Authenticated = Authentication | null | undefined

/**
 * The type of the option `authentication`: a function that returns the authentication of a request, or a promise for it.
 *
 * @example
 * ```ts
 * import { localAuthentication, type AuthenticationReader } from 'fastify-llm-quota'
 *
 * export const authentication: AuthenticationReader = async ({ headers }) => localAuthentication(headers['x-verified-user'])
 * ```
 */
export type AuthenticationReader = (request: FastifyRequest) => Authenticated | PromiseLike<Authenticated>

/** The key of a caller, or why there is none. */
export type Caller = string | Unidentified

/**
 * Returns the caller of a request, synchronously unless the host's function returns a promise. If that function fails, the request
 * has no authentication.
 *
 * @param keySuffix The text that follows an identity in the keys of the quota.
 */
export type CallerReader = (request: FastifyRequest, keySuffix: string) => Caller | Pending<Caller>

/** Creates a reader that uses the host's function or, if there is none, `request.user`. */
export function callerReader (authentication: AuthenticationReader | undefined): CallerReader {
  return authentication === undefined ? callerOfUser : callerOfHost(authentication)
}

// A value that was not created by this package is treated as verified claims, because @fastify/jwt stores them in request.user.
function callerOfUser (request: FastifyRequest, keySuffix: string): Caller {
  try {
    const user: unknown = 'user' in request ? request.user : undefined
    if (user == null) return noAuthentication
    return isAuthentication(user) ? keyOf(user, keySuffix) : keyOfClaims(user, keySuffix)
  } catch (error) {
    return authenticationFailed(error, request)
  }
}

function callerOfHost (authentication: AuthenticationReader): CallerReader {
  return (request, keySuffix) => {
    try {
      const authenticated = authentication(request)
      return isThenable(authenticated) ? callerLater(authenticated, request, keySuffix) : keyOf(authenticated, keySuffix)
    } catch (error) {
      return authenticationFailed(error, request)
    }
  }
}

function callerLater (promise: PromiseLike<Authenticated>, request: FastifyRequest, keySuffix: string): Pending<Caller> {
  const caller = new Pending<Caller>()
  whenSettled(promise,
    (authenticated) => { caller.settle(() => keyOrFailure(authenticated, request, keySuffix)) },
    (error) => { caller.settle(() => authenticationFailed(error, request)) })
  return caller
}

function keyOrFailure (authenticated: Authenticated, request: FastifyRequest, keySuffix: string): Caller {
  try {
    return keyOf(authenticated, keySuffix)
  } catch (error) {
    return authenticationFailed(error, request)
  }
}

function authenticationFailed (error: unknown, request: FastifyRequest): Unidentified {
  request.log.error({ err: shownError(error) }, 'the request\'s authentication could not be read; the request is treated as unauthenticated')
  return noAuthentication
}
