import { hash } from 'node:crypto'
import type { Authentication } from './authentication.js'

// NUL separates the parts of an identity, so that no two identities are spelled alike; no part may hold one.
const separator = '\0'

/**
 * The key that a caller's counter is kept under: the lowercase hex SHA-256 of the caller's category and identity, so
 * that no identity is kept in readable form (specification, section 5).
 *
 * A token is keyed by its own `iss` and `sub` claims, a local account by its user name, each as it is.
 *
 * @returns The digest, or null when there is no caller: no authentication, one that is anonymous or not marked
 *   authenticated, or an identity that is missing, blank, not a string, not well-formed Unicode or holds NUL.
 *
 * @example
 * ```ts
 * import { callerKey, localAuthentication, tokenAuthentication } from 'fastify-llm-quota'
 *
 * console.log(callerKey(tokenAuthentication({ iss: 'https://identity.example', sub: 'alice' }))?.length) // 64
 * console.log(callerKey(localAuthentication(' '))) // null
 * ```
 */
export function callerKey (authentication: Authentication | null | undefined): string | null {
  if (authentication == null || authentication.authenticated !== true) return null
  if (authentication.kind === 'token') return tokenKey(authentication.claims)
  if (authentication.kind === 'local') return localKey(authentication)
  return null
}

/** The key of a token's verified claims. */
export function tokenKey (claims: unknown): string | null {
  const issuer = ownIdentity(claims, 'iss')
  const subject = ownIdentity(claims, 'sub')
  if (issuer === null || subject === null) return null
  return hash('sha256', `oidc${separator}${issuer}${separator}${subject}`, 'hex')
}

function localKey (authentication: object): string | null {
  const username = ownIdentity(authentication, 'username')
  if (username === null) return null
  return hash('sha256', `local${separator}${username}`, 'hex')
}

function ownIdentity (holder: unknown, name: string): string | null {
  if (typeof holder !== 'object' || holder === null || !Object.hasOwn(holder, name)) return null
  const value: unknown = Reflect.get(holder, name)
  return typeof value === 'string' && identifies(value) ? value : null
}

function identifies (value: string): boolean {
  return value.trim() !== '' && value.isWellFormed() && !value.includes(separator)
}
