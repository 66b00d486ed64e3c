import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { logLine, MinuteLog } from '../log.js'
import type { QuotaDecision } from './decision.js'

/**
 * The reasons for an unauthenticated decision that point to a mistake in the host, and how to
 * correct it.
 */
const corrections = new Map<QuotaDecision['reason'], string>([
  [
    'no-issuer',
    'its claims have no issuer that is a string: sign tokens with the claim iss, or use ' +
      'tokenAuthentication or localAuthentication if request.user does not hold the claims of ' +
      'a token'
  ],
  [
    'no-subject',
    'its claims have no subject that is a string: sign tokens with the claim sub, such as ' +
      'String(id), or use localAuthentication if the caller is a local account'
  ],
  [
    'no-username',
    'the local account has no user name: pass a name that is not blank to localAuthentication'
  ],
  [
    'no-authentication',
    'it carries credentials, but has no authentication when the quota decides: verify them in ' +
      'onRequest or preValidation, or return them from the option authentication if it is set'
  ]
])

/** The levels of a logger that does not write a line of the level debug. */
const levelsAboveDebug: readonly unknown[] = ['info', 'warn', 'error', 'fatal', 'silent']

/** Logs decisions. Mistakes of the host are warned of once, or each minute. */
export class DecisionLog {
  readonly #minuteLog = new MinuteLog()
  readonly #warned = new Set<string>()

  /**
   * Logs a decision that refuses, or would in enforce mode, and one after a wait, at the level
   * debug. Warns of what points to a mistake, and of the caller cap.
   */
  add (
    decision: QuotaDecision,
    request: FastifyRequest | null,
    log: FastifyBaseLogger
  ): void {
    const { outcome, reason, quota, operation, overflow, waited } = decision
    if (overflow) {
      const message =
        'the quota tracks as many callers as maxTrackedCallers allows; ' +
        'further callers share the overflow counter'
      this.#warnOnce(log, `overflow ${quota}`, { quota }, message)
    }
    if (outcome === 'admitted' && waited > 0) {
      const properties = { outcome, quota, operation, waited }
      logLine(log, 'debug', properties, 'the quota admits a request that has waited for room')
    }
    if (outcome === 'admitted' || outcome === 'disabled') return
    if (!levelsAboveDebug.includes(log.level)) logRefusal(decision, log)
    const isNeverAdmitted = outcome === 'rejected' && decision.retryAfter === null
    if (isNeverAdmitted && decision.limit > 0) this.#costAboveLimit(decision, log)
    const correction = corrections.get(reason)
    if (correction === undefined) return
    if (reason === 'no-authentication' && !hasCredentials(request)) return
    const message = `a request is treated as unauthenticated, since ${correction}`
    this.#warnOnce(log, String(reason), { reason, operation, quota }, message)
  }

  #costAboveLimit ({ quota, unit, limit }: QuotaDecision, log: FastifyBaseLogger): void {
    const message =
      'the cost of a request is above the limit of the quota, so it can never be admitted; an ' +
      'estimate that should fit below any limit is a range, such as { least: 1, most: 4000 }'
    const properties = { quota, unit, limit }
    this.#minuteLog.line(`cost above ${quota}`, log, 'warn', properties, message)
  }

  /** Warns of a mistake unless that was done before. */
  #warnOnce (log: FastifyBaseLogger, mistake: string, properties: object, message: string): void {
    if (this.#warned.has(mistake)) return
    this.#warned.add(mistake)
    logLine(log, 'warn', properties, `${message}; this warning is not repeated`)
  }
}

function logRefusal (decision: QuotaDecision, log: FastifyBaseLogger): void {
  const { outcome, reason, quota, operation, enforced, limit, count, held, overflow } = decision
  const caller = decision.callerKey?.slice(0, 8)
  const { retryAfter, waited } = decision
  const properties = {
    outcome,
    reason,
    quota,
    operation,
    enforced,
    limit,
    caller,
    count,
    held,
    retryAfter,
    overflow,
    waited
  }
  const verb = enforced ? 'refuses' : 'would refuse'
  logLine(log, 'debug', properties, `the quota ${verb} the request`)
}

function hasCredentials (request: FastifyRequest | null): boolean {
  // What a host takes for a request need not have headers.
  const { headers }: { readonly headers?: FastifyRequest['headers'] } = request ?? {}
  return headers?.authorization !== undefined || headers?.cookie !== undefined
}
