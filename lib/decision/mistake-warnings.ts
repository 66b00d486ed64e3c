import type { FastifyBaseLogger } from 'fastify'
import type { QuotaDecision } from './decision.js'

/** The reasons for an unauthenticated decision that point to a mistake in the host, and how to correct it. */
const corrections = new Map<QuotaDecision['reason'], string>([
  ['no-issuer', 'the token has no issuer: sign tokens with the claim iss'],
  ['no-subject', 'the token has no subject: sign tokens with the claim sub'],
  ['no-username', 'the local account has no user name: pass a name that is not blank to localAuthentication']
])

/** Warns once for each kind of mistake in the host that leaves requests unauthenticated. */
export class MistakeWarnings {
  readonly #warned = new Set<QuotaDecision['reason']>()

  warn (log: FastifyBaseLogger, { reason, operation, quota }: QuotaDecision): void {
    const correction = corrections.get(reason)
    if (correction === undefined || this.#warned.has(reason)) return
    this.#warned.add(reason)
    log.warn({ reason, operation, quota }, `an authenticated request is treated as unauthenticated, since ${correction}; this warning is not repeated`)
  }
}
