import type { FastifyRequest } from 'fastify'
import { logLine } from '../log.js'
import type { QuotaDecision } from './decision.js'

/**
 * The reasons for an unauthenticated decision that point to a mistake in the host, and how to
 * correct it.
 */
const corrections = new Map<QuotaDecision['reason'], string>([
  [
    'no-issuer',
    'its claims have no issuer that is a string: sign tokens with the claim iss, or use tokenAuthentication or ' +
      'localAuthentication if request.user does not hold the claims of a token'
  ],
  [
    'no-subject',
    'its claims have no subject that is a string: sign tokens with the claim sub, such as String(id), or use ' +
      'localAuthentication if the caller is a local account'
  ],
  [
    'no-username',
    'the local account has no user name: pass a name that is not blank to localAuthentication'
  ],
  [
    'no-authentication',
    'it carries credentials, but has no authentication when the quota decides: verify them in onRequest or ' +
      'preValidation, or return them from the option authentication if it is set'
  ]
])

// How often requests without a report are warned of, in milliseconds.
const reportInterval = 60_000

/** Logs what the quotas of a server do. A mistake of the host is warned of once. */
export class QuotaLog {
  readonly #warned = new Set<string>()
  #unreportedAt = -Infinity

  /**
   * Logs a decision other than an admission at the level debug. Warns of what points to a mistake,
   * and of the caller cap.
   */
  decided (decision: QuotaDecision, request: FastifyRequest): void {
    const { outcome, reason, quota, operation, enforced, limit, callerKey, count, overflow } =
      decision
    if (overflow) {
      const message =
        'the quota tracks as many callers as maxTrackedCallers allows; further callers share the overflow counter'
      this.#warnOnce(request, `overflow ${quota}`, { quota }, message)
    }
    if (outcome === 'admitted' || outcome === 'disabled') return
    const properties = {
      outcome,
      reason,
      quota,
      operation,
      enforced,
      limit,
      caller: callerKey?.slice(0, 8),
      count,
      overflow
    }
    logLine(
      request.log,
      'debug',
      properties,
      enforced ? 'the quota refuses the request' : 'the quota would refuse the request'
    )
    const {
      headers: { authorization, cookie }
    } = request
    const correction = corrections.get(reason)
    if (
      correction === undefined ||
      (reason === 'no-authentication' && authorization === undefined && cookie === undefined)
    ) {
      return
    }
    this.#warnOnce(
      request,
      String(reason),
      { reason, operation, quota },
      `a request is treated as unauthenticated, since ${correction}`
    )
  }

  /** Warns, once a minute, that nothing was reported for a request. */
  unreported ({ log }: FastifyRequest, quota: string, unit: string): void {
    if (performance.now() - this.#unreportedAt < reportInterval) return
    this.#unreportedAt = performance.now()
    logLine(
      log,
      'warn',
      { quota, unit },
      `a request has ended, and its ${unit} were not reported with fastify.quotaCharge; it counts ` +
        '"unreported", or else what it counted when it was admitted; this warning is logged at most once a minute'
    )
  }

  /** Warns that tokens were reported for a request that no quota counts tokens of. */
  uncountedTokens (request: FastifyRequest): void {
    const operation = { method: request.method, path: request.routeOptions.url }
    this.#warnOnce(
      request,
      'tokens',
      { operation },
      'fastify.quotaCharge was called with a number of tokens, and no quota of the ' +
        'request counts tokens; report another unit as { unit: amount }'
    )
  }

  #warnOnce ({ log }: FastifyRequest, mistake: string, properties: object, message: string): void {
    if (this.#warned.has(mistake)) return
    this.#warned.add(mistake)
    logLine(log, 'warn', properties, `${message}; this warning is not repeated`)
  }
}
