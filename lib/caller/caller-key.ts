import { hash } from 'node:crypto'
import type { Authentication, LocalAuthentication } from './authentication.js'
import { anonymous, noAuthentication, noIssuer, noSubject, notAuthenticated, noUsername, type Unidentified } from './unidentified.js'

// NUL separates the parts of the text that is hashed. No part may contain NUL, so different identities and quotas never result in the
// same text.
const separator = '\0'

interface Claims {
  readonly iss?: unknown
  readonly sub?: unknown
}

/**
 * Returns the key of a caller's counter: the SHA-256 digest of the caller's category and identity in lowercase hexadecimal, so that
 * no identity is stored in readable form (docs/rules.md, "Caller").
 *
 * The identity of a token is its `iss` and `sub` claims, and that of a local account is its user name. Both are used unchanged.
 *
 * @param authentication How the caller was authenticated.
 * @param quota The name of the quota. A caller has a different key in each quota.
 * @returns The digest; null if there is no caller. This is the case if there is no authentication, if it is anonymous or not
 *   authenticated, or if its identity is missing, blank, not a string, not well-formed Unicode, or contains NUL.
 *
 * @example
 * ```ts
 * import { callerKey, localAuthentication, tokenAuthentication } from 'fastify-llm-quota'
 *
 * console.log(callerKey(tokenAuthentication({ iss: 'https://identity.example', sub: 'alice' }))?.length) // 64
 * console.log(callerKey(localAuthentication(' '))) // null
 *
 * const alice = localAuthentication('alice')
 * console.log(callerKey(alice) === callerKey(alice, 'default'), callerKey(alice) === callerKey(alice, 'chat')) // true false
 * ```
 */
export function callerKey (authentication: Authentication | null | undefined, quota = 'default'): string | null {
  const key = keyOf(authentication, keySuffix(quota))
  return typeof key === 'string' ? key : null
}

/** Returns the text that follows an identity in the keys of a quota. It is empty for the default quota. */
export function keySuffix (quota: string): string {
  return quota === 'default' ? '' : `${separator}${quota}`
}

/** Returns the key of a caller, or why there is none. */
export function keyOf (authentication: Authentication | null | undefined, suffix: string): string | Unidentified {
  if (authentication == null) return noAuthentication
  if (authentication.authenticated !== true) return notAuthenticated
  if (authentication.kind === 'anonymous') return anonymous
  if (authentication.kind === 'token') return authentication.claims == null ? noIssuer : keyOfClaims(authentication.claims, suffix)
  return authentication.kind === 'local' ? keyOfAccount(authentication, suffix) : noUsername
}

/** Returns the key of a token's verified claims, or why there is none. */
export function keyOfClaims (claims: Claims, suffix: string): string | Unidentified {
  const { iss, sub } = claims
  // Only own properties of an object can identify a caller, and no inherited ones, for example from a polluted `Object.prototype`. This
  // check costs nothing after the claims have been read, because V8 then knows their prototype, whereas `Object.hasOwn` is a call.
  if (Object.getPrototypeOf(claims) === Object.prototype && !('iss' in Object.prototype) && !('sub' in Object.prototype)) return keyOfPair(iss, sub, suffix)
  return keyOfOwnPair(claims, iss, sub, suffix)
}

function keyOfOwnPair (claims: Claims, iss: unknown, sub: unknown, suffix: string): string | Unidentified {
  if (typeof claims !== 'object') return noIssuer
  return keyOfPair(Object.hasOwn(claims, 'iss') ? iss : undefined, Object.hasOwn(claims, 'sub') ? sub : undefined, suffix)
}

function keyOfPair (iss: unknown, sub: unknown, suffix: string): string | Unidentified {
  if (!isIdentity(iss)) return noIssuer
  if (!isIdentity(sub)) return noSubject
  const identity = 'oidc' + separator + iss + separator + sub
  const text = suffix === '' ? identity : identity + suffix
  if (text.isWellFormed()) return hash('sha256', text, 'hex')
  return iss.isWellFormed() ? noSubject : noIssuer
}

function keyOfAccount (authentication: LocalAuthentication, suffix: string): string | Unidentified {
  const { username } = authentication
  if (!isIdentity(username) || !Object.hasOwn(authentication, 'username') || !username.isWellFormed()) return noUsername
  return hash('sha256', 'local' + separator + username + suffix, 'hex')
}

function isIdentity (value: unknown): value is string {
  return typeof value === 'string' && !isBlank(value) && !value.includes(separator)
}

// A value that starts with a visible ASCII character is not blank, which avoids the slower check.
function isBlank (value: string): boolean {
  const first = value.charCodeAt(0)
  return !(first > 0x20 && first < 0x7f) && value.trim() === ''
}
