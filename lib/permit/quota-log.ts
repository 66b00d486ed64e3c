import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { format } from '../errors.js'
import { logFailure, logLine } from '../log.js'
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

const wrongReport =
  'what a request has used was reported with an invalid amount, which is not counted'

/** The minimum time between two warnings that are repeated, in milliseconds. */
const warningInterval = 60_000

/** The levels of a logger that does not write a line of the level debug. */
const levelsAboveDebug: readonly unknown[] = ['info', 'warn', 'error', 'fatal', 'silent']

/** Logs what the quotas of a server do. Mistakes of the host are warned of once, or each minute. */
export class QuotaLog {
  readonly #log: FastifyBaseLogger
  readonly #warned = new Set<string>()
  /** When each mistake that is warned of again was warned of last, in monotonic milliseconds. */
  readonly #warnedAt = new Map<string, number>()

  /** @param log The log of the server, for what belongs to no request. */
  constructor (log: FastifyBaseLogger) {
    this.#log = log
  }

  /**
   * Logs a decision that refuses, or would in enforce mode, at the level debug. Warns of what
   * points to a mistake, and of the caller cap.
   */
  decided (
    decision: QuotaDecision,
    request: FastifyRequest | null,
    log: FastifyBaseLogger
  ): void {
    const { outcome, reason, quota, operation, overflow } = decision
    if (overflow) {
      const message =
        'the quota tracks as many callers as maxTrackedCallers allows; ' +
        'further callers share the overflow counter'
      this.#warnOnce(log, `overflow ${quota}`, { quota }, message)
    }
    if (outcome === 'admitted' || outcome === 'disabled') return
    if (!levelsAboveDebug.includes(log.level)) logRefusal(decision, log)
    if (outcome === 'rejected' && decision.retryAfter === null) this.#costAboveLimit(decision, log)
    const correction = corrections.get(reason)
    if (correction === undefined) return
    if (reason === 'no-authentication' && !hasCredentials(request)) return
    const message = `a request is treated as unauthenticated, since ${correction}`
    this.#warnOnce(log, String(reason), { reason, operation, quota }, message)
  }

  /** Warns that nothing was reported for a request. */
  unreported (log: FastifyBaseLogger, quota: string, unit: string): void {
    const message =
      `a request has ended, and its ${unit} were not reported with fastify.quotaCharge; ` +
      'it counts "unreported", or else what it was granted'
    this.#warnEachMinute(log, 'unreported', { quota, unit }, message)
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

  #costAboveLimit ({ quota, unit, limit }: QuotaDecision, log: FastifyBaseLogger): void {
    const message =
      'the cost of a request is above the limit of the quota, so it can never be admitted; an ' +
      'estimate that should fit below any limit is a range, such as { least: 1, most: 4000 }'
    this.#warnEachMinute(log, `cost ${quota}`, { quota, unit, limit }, message)
  }

  /** Warns of a mistake unless that was done in the last minute. */
  #warnEachMinute (
    log: FastifyBaseLogger,
    mistake: string,
    properties: object,
    message: string
  ): void {
    const now = performance.now()
    if (now - (this.#warnedAt.get(mistake) ?? -Infinity) < warningInterval) return
    this.#warnedAt.set(mistake, now)
    logLine(log, 'warn', properties, `${message}; this warning is logged at most once a minute`)
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
  const { retryAfter } = decision
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
    overflow
  }
  const verb = enforced ? 'refuses' : 'would refuse'
  logLine(log, 'debug', properties, `the quota ${verb} the request`)
}

function hasCredentials (request: FastifyRequest | null): boolean {
  // What a host takes for a request need not have headers.
  const { headers }: { readonly headers?: FastifyRequest['headers'] } = request ?? {}
  return headers?.authorization !== undefined || headers?.cookie !== undefined
}
