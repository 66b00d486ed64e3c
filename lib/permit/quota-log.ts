import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { format } from '../errors.js'
import { logFailure, logLine } from '../log.js'
import type { QuotaDecision } from './decision.js'
import type { Requester } from './requester.js'

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

const wrongReport =
  'what a request has used was reported with an invalid amount, which is not counted'

// How often requests without a report are warned of, in milliseconds.
const reportInterval = 60_000

/** Logs what the quotas of a server do. A mistake of the host is warned of once. */
export class QuotaLog {
  readonly #log: FastifyBaseLogger
  readonly #warned = new Set<string>()
  #unreportedAt = -Infinity

  /** @param log The log of the server, for what belongs to no request. */
  constructor (log: FastifyBaseLogger) {
    this.#log = log
  }

  /**
   * Logs a decision other than an admission at the level debug. Warns of what points to a mistake,
   * and of the caller cap.
   */
  decided (decision: QuotaDecision, { request, log }: Requester): void {
    const { outcome, reason, quota, operation, enforced, overflow } = decision
    if (overflow) {
      const message =
        'the quota tracks as many callers as maxTrackedCallers allows; ' +
        'further callers share the overflow counter'
      this.#warnOnce(log, `overflow ${quota}`, { quota }, message)
    }
    if (outcome === 'admitted' || outcome === 'disabled') return
    const { limit, callerKey, count, held } = decision
    const caller = callerKey?.slice(0, 8)
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
      overflow
    }
    const verb = enforced ? 'refuses' : 'would refuse'
    logLine(log, 'debug', properties, `the quota ${verb} the request`)
    const correction = corrections.get(reason)
    if (correction === undefined) return
    if (reason === 'no-authentication' && !hasCredentials(request)) return
    const message = `a request is treated as unauthenticated, since ${correction}`
    this.#warnOnce(log, String(reason), { reason, operation, quota }, message)
  }

  /** Warns, once a minute, that nothing was reported for a request. */
  unreported (log: FastifyBaseLogger, quota: string, unit: string): void {
    if (performance.now() - this.#unreportedAt < reportInterval) return
    this.#unreportedAt = performance.now()
    const message =
      `a request has ended, and its ${unit} were not reported with fastify.quotaCharge; ` +
      'it counts "unreported", or else what it was granted; ' +
      'this warning is logged at most once a minute'
    logLine(log, 'warn', { quota, unit }, message)
  }

  /** Warns that tokens were reported for a request that no quota counts tokens of. */
  uncountedTokens (): void {
    const message =
      'fastify.quotaCharge was called with a number of tokens, and no quota of the request ' +
      'counts tokens; report another unit as { unit: amount }'
    this.#warnOnce(this.#log, 'tokens', {}, message)
  }

  /** Logs that an amount in a report is not counted. */
  wrongAmount (unit: string, amount: unknown): void {
    const got = format(amount)
    const error = new RangeError(`an amount must be a safe integer of at least 0; it got ${got}`)
    logFailure(this.#log, error, wrongReport, { unit })
  }

  /** Logs that a report is not counted. */
  wrongReport (error: unknown): void {
    logFailure(this.#log, error, wrongReport)
  }

  #warnOnce (log: FastifyBaseLogger, mistake: string, properties: object, message: string): void {
    if (this.#warned.has(mistake)) return
    this.#warned.add(mistake)
    logLine(log, 'warn', properties, `${message}; this warning is not repeated`)
  }
}

function hasCredentials (request: FastifyRequest | null): boolean {
  // What a host takes for a request need not have headers.
  const { headers }: { readonly headers?: FastifyRequest['headers'] } = request ?? {}
  return headers?.authorization !== undefined || headers?.cookie !== undefined
}
