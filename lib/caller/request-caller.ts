import type { FastifyRequest } from 'fastify'
import type { OfRequest } from '../any-request.js'
import { logFailure, logLine } from '../log.js'
import { isAuthentication, type Authentication } from './authentication.js'
import { keyOf, keyOfClaims, Unidentified } from './caller-key.js'

/**
 * The type of the option `authentication`: a function that returns the authentication of a request, or a promise for it. If it throws or
 * rejects, the request is answered with 401, or with 503 if the error has a `statusCode` of 500 or more.
 */
export type AuthenticationReader = OfRequest<Authentication | null | undefined | PromiseLike<Authentication | null | undefined>>

/** The key of a caller, or why there is none. */
export type Caller = string | Unidentified

/** Returns the caller of a request. A promise only if the host's function returned one. */
export type CallerReader = (request: FastifyRequest) => Caller | Promise<Caller>

const noAuthentication = new Unidentified('no-authentication')
const outage = new Unidentified(null)
const serverError = 500

/** Reads the caller from `request.user`. A value that this package did not create is verified claims, which @fastify/jwt stores there. */
export const callerOfUser: CallerReader = (request) => {
  try {
    const user: unknown = 'user' in request ? request.user : undefined
    if (user == null) return noAuthentication
    return isAuthentication(user) ? keyOf(user) : keyOfClaims(user)
  } catch (error) {
    return failed(error, request)
  }
}

/** Creates a reader that uses the host's function. */
export function callerReader (authentication: AuthenticationReader): CallerReader {
  let isWarned = false

  function callerOf (authenticated: unknown, { log }: FastifyRequest): Caller {
    if (authenticated == null) return noAuthentication
    if (!isAuthentication(authenticated) && !isWarned) {
      isWarned = true
      logLine(log, 'warn', {}, 'the option authentication returned a value that this package did not create, so the request is treated as unauthenticated: wrap verified claims with tokenAuthentication(claims), and a user name with localAuthentication(username); this warning is not repeated')
    }
    return keyOf(authenticated)
  }

  async function callerLater (promise: unknown, request: FastifyRequest): Promise<Caller> {
    try {
      return callerOf(await promise, request)
    } catch (error) {
      return failed(error, request)
    }
  }

  return (request) => {
    try {
      const authenticated = authentication(request)
      return authenticated == null || isAuthentication(authenticated) ? callerOf(authenticated, request) : callerLater(authenticated, request)
    } catch (error) {
      return failed(error, request)
    }
  }
}

function failed (error: unknown, { log }: FastifyRequest): Unidentified {
  const isOutage = Number(Object(error).statusCode) >= serverError
  logFailure(log, error, `the authentication of the request could not be read; the decision on it is ${isOutage ? 'unavailable' : 'unauthenticated'}`)
  return isOutage ? outage : noAuthentication
}
