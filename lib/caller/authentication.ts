/**
 * A bearer token (JWT), or an OpenID Connect browser login, with the claims that were verified.
 *
 * @example
 * ```ts
 * import { tokenAuthentication, type TokenAuthentication } from 'fastify-llm-quota'
 *
 * const authentication: TokenAuthentication = tokenAuthentication({ iss: 'https://identity.example', sub: 'alice' })
 * console.log(authentication.kind, authentication.authenticated) // token true
 * ```
 */
export interface TokenAuthentication {
  /** Tells the kinds apart. */
  readonly kind: 'token'
  /** Whether the token was verified. */
  readonly authenticated: boolean
  /** The claims, of which `iss` and `sub` name the caller (RFC 7519, sections 4.1.1 and 4.1.2). */
  readonly claims: unknown
}

/**
 * A local account.
 *
 * @example
 * ```ts
 * import { localAuthentication, type LocalAuthentication } from 'fastify-llm-quota'
 *
 * const authentication: LocalAuthentication = localAuthentication('alice')
 * console.log(authentication.kind, authentication.username) // local alice
 * ```
 */
export interface LocalAuthentication {
  /** Tells the kinds apart. */
  readonly kind: 'local'
  /** Whether the account's credentials were proved. */
  readonly authenticated: boolean
  /** The user name, which names the caller. */
  readonly username: unknown
}

/**
 * A caller that the host lets in without knowing who it is.
 *
 * @example
 * ```ts
 * import { anonymousAuthentication, type AnonymousAuthentication } from 'fastify-llm-quota'
 *
 * const authentication: AnonymousAuthentication = anonymousAuthentication()
 * console.log(authentication.kind, authentication.authenticated) // anonymous true
 * ```
 */
export interface AnonymousAuthentication {
  /** Tells the kinds apart. */
  readonly kind: 'anonymous'
  /** Whether the host let the caller in; that names nobody. */
  readonly authenticated: boolean
}

/**
 * How the host authenticated a request (specification, section 5).
 *
 * @example
 * ```ts
 * import type { FastifyRequest } from 'fastify'
 * import { anonymousAuthentication, localAuthentication, type Authentication } from 'fastify-llm-quota'
 *
 * // For the option of that name, where another hook has put the account's name on the request.
 * export function authentication (request: FastifyRequest & { accountName?: string }): Authentication {
 *   return request.accountName === undefined ? anonymousAuthentication() : localAuthentication(request.accountName)
 * }
 * ```
 */
export type Authentication = TokenAuthentication | LocalAuthentication | AnonymousAuthentication

// Verified claims are whatever JSON a token held, so a look at their fields could not tell them from an authentication.
const made = new WeakSet<object>()

function make<Made extends Authentication> (authentication: Made): Made {
  made.add(authentication)
  return Object.freeze(authentication)
}

/** Whether a value was made by one of the functions below; no token payload can pass for one. */
export function isAuthentication (value: object): value is Authentication {
  return made.has(value)
}

/**
 * A caller identified by a token: the pair of its issuer (`iss`) and subject (`sub`) claims (specification, section 5).
 *
 * @param claims The verified claims.
 * @param options `authenticated` is false when the verification did not succeed. Default true.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { tokenAuthentication } from 'fastify-llm-quota'
 *
 * // Where a gateway has verified the token, and says so in headers that only it can set.
 * await Fastify().register(quotaPlugin, {
 *   authentication: ({ headers }) => tokenAuthentication({ iss: headers['x-verified-issuer'], sub: headers['x-verified-subject'] })
 * })
 * ```
 */
export function tokenAuthentication (claims: unknown, { authenticated = true } = {}): TokenAuthentication {
  return make({ kind: 'token', authenticated, claims })
}

/**
 * A caller identified by a local account's user name (specification, section 5).
 *
 * @param username The account's user name.
 * @param options `authenticated` is false when the account's credentials were not proved. Default true.
 *
 * @example
 * ```ts
 * import { callerKey, localAuthentication } from 'fastify-llm-quota'
 *
 * console.log(callerKey(localAuthentication('alice'))?.slice(0, 8)) // fe8a67d0
 * ```
 */
export function localAuthentication (username: unknown, { authenticated = true } = {}): LocalAuthentication {
  return make({ kind: 'local', authenticated, username })
}

/**
 * A caller that is nobody in particular: protected operations answer it 401 (specification, section 5).
 *
 * @example
 * ```ts
 * import { anonymousAuthentication, callerKey } from 'fastify-llm-quota'
 *
 * console.log(callerKey(anonymousAuthentication())) // null
 * ```
 */
export function anonymousAuthentication (): AnonymousAuthentication {
  return make({ kind: 'anonymous', authenticated: true })
}
