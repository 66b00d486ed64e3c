import type { FastifyRequest } from 'fastify'
import type { OfRequest } from '../any-request.js'
import { logFailure, logLine } from '../log.js'
import { attempt } from '../promises.js'
import { isAuthentication, type Authentication } from './authentication.js'
import { keyOf, keyOfClaims, Unidentified } from './caller-key.js'

/**
 * The type of the option `authentication`: a function that returns the authentication of a request, or a promise of it. If it throws or
 * rejects, the response is a 401, or a 503 if the error has a `statusCode` of 500 or more.
 */
export type AuthenticationReader = OfRequest<Authentication | null | undefined | PromiseLike<Authentication | null | undefined>>

/** The key of a caller, or why there is none. */
export type Caller = string | Unidentified

/** Returns the caller of a request. A promise only if the host's function returned one. */
export type CallerReader = (request: FastifyRequest) => Caller | Promise<Caller>

const noAuthentication = new Unidentified('no-authentication')
const outage = new Unidentified(null)
const serverError = 500

const foreign = 'the option authentication returned a value that this package did not create, so the request is treated as ' +
  'unauthenticated: wrap verified claims with tokenAuthentication(claims), and a user name with localAuthentication(username); ' +
  'this warning is not repeated'

/** The default reader. A value of `request.user` that this package did not create is verified claims, which @fastify/jwt stores there. */
const callerOfUser: CallerReader = (request) => attempt<Caller>(() => {
  const user: unknown = 'user' in request ? request.user : undefined
  if (user == null) return noAuthentication
  return isAuthentication(user) ? keyOf(user) : keyOfClaims(user)
}, (error) => failed(error, request))

/** Creates a reader that uses the host's function, if there is one. */
export function callerReader (authentication: AuthenticationReader | undefined): CallerReader {
  if (authentication === undefined) return callerOfUser
  let isWarned = false

  function callerOf (authenticated: unknown, { log }: FastifyRequest): Caller {
    if (authenticated == null) return noAuthentication
    if (!isAuthentication(authenticated) && !isWarned) {
      isWarned = true
      logLine(log, 'warn', {}, foreign)
    }
    return keyOf(authenticated)
  }

  return (request) => attempt<Caller>(() => {
    const authenticated = authentication(request)
    if (authenticated == null || isAuthentication(authenticated)) return callerOf(authenticated, request)
    return Promise.resolve(authenticated).then((later) => callerOf(later, request))
  }, (error) => failed(error, request))
}

function failed (error: unknown, { log }: FastifyRequest): Unidentified {
  const isOutage = Number(Object(error).statusCode) >= serverError
  const outcome = isOutage ? 'unavailable' : 'unauthenticated'
  logFailure(log, error, `the authentication of the request could not be read; the decision on it is ${outcome}`)
  return isOutage ? outage : noAuthentication
}
