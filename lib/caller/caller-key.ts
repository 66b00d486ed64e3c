import { hash } from 'node:crypto'
import { formatType } from '../errors.js'
import { isAuthentication, type Authentication } from './authentication.js'

/**
 * Why a request has no caller:
 *
 * - `no-authentication`: the request has no authentication;
 * - `not-authenticated`: `authenticated` is not true, or the option `authentication` returned an
 *   object that this package did not create;
 * - `anonymous`: the authentication is anonymous;
 * - `no-issuer`, `no-subject`: the claim of the token is missing, blank or invalid;
 * - `no-username`: the user name of the local account is missing, blank or invalid.
 */
export type UnidentifiedReason =
  | 'no-authentication'
  | 'not-authenticated'
  | 'anonymous'
  | 'no-issuer'
  | 'no-subject'
  | 'no-username'

/**
 * Takes the place of a caller key if there is no caller. The reason is null if the authentication
 * itself was unavailable.
 */
export class Unidentified {
  constructor (readonly reason: UnidentifiedReason | null) {}
}

/**
 * Returns the key of a caller's counters: the SHA-256 digest of the caller's category and identity
 * in lowercase hexadecimal, so that no identity is stored in readable form (docs/rules.md,
 * "Caller"). It is the same in every quota.
 *
 * The identity of a token is its `iss` and `sub` claims, and that of a local account is its user
 * name. Both are used unchanged.
 *
 * @param authentication How the caller was authenticated.
 * @returns The digest; null if there is no caller. This is the case if the authentication is
 *   anonymous or not authenticated, or if its identity is missing, blank, not a string, not
 *   well-formed Unicode, or contains NUL.
 * @throws {TypeError} If the value was not created by `tokenAuthentication`, `localAuthentication`
 *   or `anonymousAuthentication`, for example if it is null.
 */
export function callerKey (authentication: Authentication): string | null {
  if (!isAuthentication(authentication)) {
    const rule = 'must have been created by tokenAuthentication, localAuthentication or ' +
      'anonymousAuthentication'
    const got = formatType(authentication)
    throw new TypeError(`fastify-llm-quota: the authentication ${rule}; it got ${got}`)
  }
  const key = keyOf(authentication)
  return typeof key === 'string' ? key : null
}

/** Returns the key of an authentication's caller, or why there is none. */
export function keyOf (authentication: Authentication): string | Unidentified {
  if (authentication.authenticated !== true) return new Unidentified('not-authenticated')
  if (authentication.kind === 'anonymous') return new Unidentified('anonymous')
  if (authentication.kind === 'token') return keyOfClaims(authentication.claims)
  const { username } = authentication
  if (!isIdentity(username)) return new Unidentified('no-username')
  return hash('sha256', 'local\0' + username, 'hex')
}

/** Returns the key of the caller that the verified claims of a token identify. */
export function keyOfClaims (verified: unknown): string | Unidentified {
  const isObject = typeof verified === 'object' && verified !== null
  const claims: { readonly iss?: unknown; readonly sub?: unknown } = isObject ? verified : {}
  // An inherited property is no claim.
  const issuer = Object.hasOwn(claims, 'iss') ? claims.iss : undefined
  if (!isIdentity(issuer)) return new Unidentified('no-issuer')
  const subject = Object.hasOwn(claims, 'sub') ? claims.sub : undefined
  if (!isIdentity(subject)) return new Unidentified('no-subject')
  return hash('sha256', 'oidc\0' + issuer + '\0' + subject, 'hex')
}

/**
 * Whether a value can be a part of the text that is hashed. None contains NUL, so different
 * identities never result in the same text.
 */
function isIdentity (value: unknown): value is string {
  if (typeof value !== 'string' || value.includes('\0') || !value.isWellFormed()) return false
  // Most names begin with a visible ASCII character, so they need not be copied.
  const first = value.charCodeAt(0)
  const isVisible = first > 0x20 && first < 0x7f
  return isVisible || value.trim() !== ''
}
