/**
 * Why a request has no caller:
 *
 * - `no-authentication`: the request has no authentication;
 * - `not-authenticated`: `authenticated` is not true;
 * - `anonymous`: the authentication is anonymous;
 * - `no-issuer`, `no-subject`: the claim of the token is missing, blank or invalid;
 * - `no-username`: the user name of the local account is missing, blank or invalid.
 *
 * @example
 * ```ts
 * import type { UnidentifiedReason } from 'fastify-llm-quota'
 *
 * // Whether the reason points to a mistake in the service.
 * export function isMistake (reason: UnidentifiedReason): boolean {
 *   return reason === 'no-issuer' || reason === 'no-subject' || reason === 'no-username'
 * }
 * ```
 */
export type UnidentifiedReason = 'no-authentication' | 'not-authenticated' | 'anonymous' | 'no-issuer' | 'no-subject' | 'no-username'

/** Takes the place of a caller key if there is no caller. */
export class Unidentified {
  readonly reason: UnidentifiedReason

  constructor (reason: UnidentifiedReason) {
    this.reason = reason
  }
}

export const noAuthentication = new Unidentified('no-authentication')
export const notAuthenticated = new Unidentified('not-authenticated')
export const anonymous = new Unidentified('anonymous')
export const noIssuer = new Unidentified('no-issuer')
export const noSubject = new Unidentified('no-subject')
export const noUsername = new Unidentified('no-username')
