/** A bearer token (JWT), or an OpenID Connect browser login, with the claims that were verified. */
export interface TokenAuthentication { readonly kind: 'token', readonly authenticated: boolean, readonly claims: unknown }

/** A local account. */
export interface LocalAuthentication { readonly kind: 'local', readonly authenticated: boolean, readonly username: unknown }

/** A caller that the host lets in without knowing who it is. */
export interface AnonymousAuthentication { readonly kind: 'anonymous', readonly authenticated: boolean }

/** How the host authenticated a request (specification, section 5). */
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
 * @param options.authenticated False when the verification did not succeed. Default true.
 */
export function tokenAuthentication (claims: unknown, { authenticated = true } = {}): TokenAuthentication {
  return make({ kind: 'token', authenticated, claims })
}

/**
 * A caller identified by a local account's user name (specification, section 5).
 *
 * @param username The account's user name.
 * @param options.authenticated False when the account's credentials were not proved. Default true.
 */
export function localAuthentication (username: unknown, { authenticated = true } = {}): LocalAuthentication {
  return make({ kind: 'local', authenticated, username })
}

/** A caller that is nobody in particular: protected operations answer it 401 (specification, section 5). */
export function anonymousAuthentication (): AnonymousAuthentication {
  return make({ kind: 'anonymous', authenticated: true })
}
