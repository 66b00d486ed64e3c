import type { FastifyRequest } from 'fastify'
import type { OfRequest } from '../any-request.js'
import { logLine, MinuteLog } from '../log.js'
import { isPromise } from '../promises.js'
import { isAuthentication, tokenAuthentication, type Authentication } from './authentication.js'
import { keyOf, keyOfClaims, Unidentified } from './caller-key.js'

/**
 * The type of the option `authentication`: a function that returns the authentication of a request,
 * or a promise of it. Return null for invalid credentials. If it throws or rejects, the response is
 * a 503, or a 401 if the error has a `statusCode` below 500, as those of `@fastify/jwt` have. The
 * request waits until the promise settles, so a function that asks a server needs a time limit of
 * its own.
 */
export type AuthenticationReader = OfRequest<
  Authentication | null | undefined | PromiseLike<Authentication | null | undefined>
>

/** An identified caller. */
export class Caller {
  readonly #identification: unknown

  /**
   * @param callerKey The digest.
   * @param identification The authentication that the key was derived from, or the claims in
   *   `request.user`.
   */
  constructor (
    readonly callerKey: string,
    identification: unknown
  ) {
    this.#identification = identification
  }

  /** The authentication that the key was derived from. */
  get authentication (): Authentication {
    const identification = this.#identification
    // Few quotas need it, so it is created only for those.
    return isAuthentication(identification) ? identification : tokenAuthentication(identification)
  }
}

/** Returns the caller of an authentication. */
export function callerOfAuthentication (authentication: Authentication): Caller | Unidentified {
  const key = keyOf(authentication)
  return typeof key === 'string' ? new Caller(key, authentication) : key
}

/**
 * Returns the caller in `request.user`, where a value that this package did not create is verified
 * claims, which @fastify/jwt stores there.
 */
function callerOfUser (user: unknown): Caller | Unidentified {
  if (user == null) return new Unidentified('no-authentication')
  const key = isAuthentication(user) ? keyOf(user) : keyOfClaims(user)
  return typeof key === 'string' ? new Caller(key, user) : key
}

const foreignWarning =
  'the option authentication returned a value that this package did not create, so the request ' +
  'is treated as unauthenticated: wrap verified claims with tokenAuthentication(claims), and a ' +
  'user name with localAuthentication(username); this warning is not repeated'

const unreadable = 'the authentication of the request could not be read'

/**
 * Reads the callers of requests (docs/rules.md, "Caller"). Quotas with the same function of the
 * host share a reader, so that each request is authenticated once.
 */
export class CallerReader {
  readonly #authentication: AuthenticationReader | undefined
  readonly #failures = new MinuteLog()
  #isWarned = false

  /** @param authentication The host's function. Default: `request.user` is read. */
  constructor (authentication?: AuthenticationReader) {
    this.#authentication = authentication
  }

  /**
   * Returns the caller of a request, or why there is none. A promise only if the host's function
   * returned one. Neither throws nor rejects.
   */
  read (request: FastifyRequest): Caller | Unidentified | Promise<Caller | Unidentified> {
    try {
      if (this.#authentication === undefined) {
        const { user }: { readonly user?: unknown } = request
        return callerOfUser(user)
      }
      const authentication: unknown = this.#authentication(request)
      if (isPromise(authentication)) return this.#readPromise(authentication, request)
      return this.#callerOf(authentication, request)
    } catch (error) {
      return this.#afterFailure(error, request)
    }
  }

  async #readPromise (
    promise: PromiseLike<unknown>,
    request: FastifyRequest
  ): Promise<Caller | Unidentified> {
    try {
      return this.#callerOf(await promise, request)
    } catch (error) {
      return this.#afterFailure(error, request)
    }
  }

  #callerOf (authentication: unknown, request: FastifyRequest): Caller | Unidentified {
    if (authentication == null) return new Unidentified('no-authentication')
    if (isAuthentication(authentication)) return callerOfAuthentication(authentication)
    if (!this.#isWarned) {
      this.#isWarned = true
      logLine(request.log, 'warn', {}, foreignWarning)
    }
    return new Unidentified('not-authenticated')
  }

  #afterFailure (error: unknown, { log }: FastifyRequest): Unidentified {
    if (isRefusal(error)) {
      const message = `${unreadable}; the request is treated as unauthenticated`
      this.#failures.failure('refusal', log, error, message)
      return new Unidentified('no-authentication')
    }
    const advice = 'if only the credentials were invalid, return null in place of an error'
    const message = `${unreadable}; the quota is unavailable; ${advice}`
    this.#failures.failure('outage', log, error, message)
    return new Unidentified(null)
  }
}

/**
 * Whether an error of the host refuses the credentials, by a status code below 500. Any other error
 * is an outage, for example of a database, as it is for Fastify: after a 401, clients discard valid
 * credentials.
 */
function isRefusal (error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  try {
    const { statusCode }: { readonly statusCode?: unknown } = error
    const status = Number(statusCode)
    // Clients of servers set 0 if they have received no response.
    return status > 0 && status < 500
  } catch {
    // A getter threw, or the status is a symbol.
    return false
  }
}
