import type { FastifyRequest } from 'fastify'
import type { OfRequest } from '../any-request.js'
import { logFailure, logLine } from '../log.js'
import { attempt, proceed } from '../promises.js'
import { isAuthentication, tokenAuthentication, type Authentication } from './authentication.js'
import { keyOf, Unidentified, type Caller } from './caller-key.js'

/**
 * The type of the option `authentication`: a function that returns the authentication of a request,
 * or a promise of it. If it throws or rejects, the response is a 401, or a 503 if the error has a
 * `statusCode` of 500 or more.
 */
export type AuthenticationReader = OfRequest<
  Authentication | null | undefined | PromiseLike<Authentication | null | undefined>
>

/** Returns the caller of a request. A promise only if the host's function returned one. */
export type CallerReader = (request: FastifyRequest) => Caller | Promise<Caller>

const foreign =
  'the option authentication returned a value that this package did not create, so the request is treated as ' +
  'unauthenticated: wrap verified claims with tokenAuthentication(claims), and a user name with localAuthentication(username); ' +
  'this warning is not repeated'

/**
 * Reads `request.user`, where a value that this package did not create is verified claims, which
 * @fastify/jwt stores there.
 */
function userOf (request: FastifyRequest): Authentication | null | undefined {
  const user: unknown = Reflect.get(request, 'user')
  return user == null || isAuthentication(user) ? user : tokenAuthentication(user)
}

/** Creates a reader that uses the host's function, if there is one. */
export function callerReader (authentication: AuthenticationReader = userOf): CallerReader {
  let isWarned = false
  return (request) =>
    attempt<Caller>(
      () => {
        const read = authentication(request)
        return proceed(
          read == null || isAuthentication(read) ? read : Promise.resolve(read),
          (found) => {
            const isForeign = found != null && !isAuthentication(found)
            if (isForeign && !isWarned) logLine(request.log, 'warn', {}, foreign)
            isWarned ||= isForeign
            return keyOf(found)
          }
        )
      },
      (error) => {
        const isOutage = Number(Object(error).statusCode) >= 500
        const outcome = isOutage ? 'unavailable' : 'unauthenticated'
        logFailure(
          request.log,
          error,
          `the authentication of the request could not be read; the decision on it is ${outcome}`
        )
        return new Unidentified(isOutage ? null : 'no-authentication')
      }
    )
}
