import { hash } from 'node:crypto'
import type { Authentication, LocalAuthentication } from './authentication.js'
import { anonymous, noAuthentication, noIssuer, noSubject, notAuthenticated, noUsername, type Unidentified } from './unidentified.js'

// NUL separates the parts of the text that is hashed. No part may contain NUL, so different identities and quotas never result in the
// same text.
const separator = '\0'

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
  if (authentication.kind === 'token') return keyOfClaims(authentication.claims, suffix)
  return authentication.kind === 'local' ? keyOfAccount(authentication, suffix) : noUsername
}

/** Returns the key of a token's verified claims, or why there is none. */
export function keyOfClaims (claims: unknown, suffix: string): string | Unidentified {
  if (typeof claims !== 'object' || claims === null) return noIssuer
  const issuer = Object.hasOwn(claims, 'iss') && 'iss' in claims ? identity(claims.iss) : null
  if (issuer === null) return noIssuer
  const subject = Object.hasOwn(claims, 'sub') && 'sub' in claims ? identity(claims.sub) : null
  if (subject === null) return noSubject
  return hash('sha256', `oidc${separator}${issuer}${separator}${subject}${suffix}`, 'hex')
}

function keyOfAccount (authentication: LocalAuthentication, suffix: string): string | Unidentified {
  const username = Object.hasOwn(authentication, 'username') ? identity(authentication.username) : null
  if (username === null) return noUsername
  return hash('sha256', `local${separator}${username}${suffix}`, 'hex')
}

function identity (value: unknown): string | null {
  return typeof value === 'string' && !isBlank(value) && value.isWellFormed() && !value.includes(separator) ? value : null
}

// A value that starts with a visible ASCII character is not blank, which avoids the slower check.
function isBlank (value: string): boolean {
  const first = value.charCodeAt(0)
  return !(first > 0x20 && first < 0x7f) && value.trim() === ''
}
