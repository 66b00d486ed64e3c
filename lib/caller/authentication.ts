interface AuthenticationOf<Kind> {
  /** The kind of the authentication. */
  readonly kind: Kind
  /**
   * Whether the host verified it: the token or the credentials. An anonymous user has no key in
   * either case.
   */
  readonly authenticated: boolean
  /**
   * What the host knows of the user, such as its plan, for functions that get the authentication.
   * It identifies nobody and is no part of the key. Undefined by default.
   */
  readonly account: unknown
}

/** A bearer token (JWT) or an OpenID Connect browser login, with its verified claims. */
export interface TokenAuthentication extends AuthenticationOf<'token'> {
  /** The claims. `iss` and `sub` identify the caller (RFC 7519, sections 4.1.1 and 4.1.2). */
  readonly claims: unknown
}

/** A local account. */
export interface LocalAuthentication extends AuthenticationOf<'local'> {
  /** The user name, which identifies the caller. */
  readonly username: unknown
}

/** An anonymous user, such as a guest. */
export interface AnonymousAuthentication extends AuthenticationOf<'anonymous'> {}

/**
 * How the host authenticated a request (docs/rules.md, "Caller"). Only the functions of this
 * package create it.
 */
export type Authentication = TokenAuthentication | LocalAuthentication | AnonymousAuthentication

/**
 * Marks what the functions below create. Verified claims can be any JSON object, so their fields
 * cannot distinguish them from an authentication.
 */
class Created {
  readonly #isCreated = true

  /** Never throws, whatever the value is. */
  static isAuthentication (value: unknown): value is Authentication {
    return typeof value === 'object' && value !== null && #isCreated in value
  }
}

function create<Kind extends Authentication> (authentication: Kind): Kind {
  return Object.freeze(Object.assign(new Created(), authentication))
}

/**
 * Whether a value was created by one of the functions below. This is never true for a token's
 * payload.
 */
export const isAuthentication: (value: unknown) => value is Authentication =
  Created.isAuthentication

/** Options of `tokenAuthentication` and `localAuthentication`. */
interface AuthenticationOptions {
  /** False if the token or the credentials were not verified. Default true. */
  readonly authenticated?: boolean | undefined
  /** What the host knows of the user, such as its plan, for functions that get this. */
  readonly account?: unknown
}

/**
 * Creates the authentication of a token's caller, identified by the claims `iss` (issuer) and `sub`
 * (subject) (docs/rules.md, "Caller").
 *
 * @param claims The verified claims.
 * @param options Whether the token was verified, and what the host knows of the user.
 */
export function tokenAuthentication (
  claims: unknown,
  { authenticated = true, account }: AuthenticationOptions = {}
): TokenAuthentication {
  return create({ kind: 'token', authenticated, claims, account })
}

/**
 * Creates the authentication of a local account's caller, identified by the user name
 * (docs/rules.md, "Caller").
 *
 * @param username The account's user name. If it is blank, the response is a 401.
 * @param options Whether the credentials were verified, and what the host knows of the user.
 */
export function localAuthentication (
  username: string,
  { authenticated = true, account }: AuthenticationOptions = {}
): LocalAuthentication {
  return create({ kind: 'local', authenticated, username, account })
}

/**
 * Creates the authentication of an anonymous user, such as a guest. The response to its requests is
 * a 401 (docs/rules.md, "Caller").
 *
 * @param options What the host knows of the user.
 */
export function anonymousAuthentication (
  { account }: Pick<AuthenticationOptions, 'account'> = {}
): AnonymousAuthentication {
  return create({ kind: 'anonymous', authenticated: true, account })
}
