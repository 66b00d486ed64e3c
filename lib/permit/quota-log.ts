import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { formatType } from '../errors.js'
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

/** A unit that a quota can have. What else a host reports is not shown in the log. */
const unitPattern = /^[a-z][a-z-]{0,31}$/

/** Of how many units nobody counts a warning can be logged. Bounded, as hosts name them freely. */
const mostUncountedUnits = 100

/** Logs what the quotas of a server do. Mistakes of the host are warned of once, or each minute. */
export class QuotaLog {
  readonly #log: FastifyBaseLogger
  readonly #minuteLog = new MinuteLog()
  readonly #warned = new Set<string>()
  readonly #uncountedUnits = new Set<string>()

  /** @param log The log of the server, for what belongs to no request. */
  constructor (log: FastifyBaseLogger) {
    this.#log = log
  }

  /**
   * Logs a decision that refuses, or would in enforce mode, and one after a wait, at the level
   * debug. Warns of what points to a mistake, and of the caller cap.
   */
  decided (
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

  /** Warns that nothing was reported for a request. */
  unreported (log: FastifyBaseLogger, quota: string, unit: string): void {
    const message =
      `a request has ended, and its ${unit} were not reported, so that it counts what it was ` +
      'granted; report them with the charge of its permit, such as request.quota.charge, or set ' +
      'unreported'
    this.#minuteLog.line(`unreported ${quota}`, log, 'warn', { quota, unit }, message)
  }

  /** Warns that a unit was reported that no quota of the request counts. */
  uncountedUnit (unit: string): void {
    const isKnown = this.#uncountedUnits.has(unit)
    if (isKnown || this.#uncountedUnits.size === mostUncountedUnits) return
    this.#uncountedUnits.add(unit)
    const shown = unitPattern.test(unit) ? `the unit ${unit}` : 'a unit that no quota can have'
    const message =
      `an amount was reported in ${shown}, which no quota of the request counts; it is not ` +
      'counted; this warning is not repeated for the unit'
    logLine(this.#log, 'warn', {}, message)
  }

  /** Logs that an amount in a report is not counted. */
  wrongAmount (amount: unknown): void {
    const got = formatType(amount)
    const rule = 'an amount must be a safe integer of at least 0'
    this.wrongReport(new RangeError(`${rule}; it got ${got}`))
  }

  /** Logs that a report is not counted. */
  wrongReport (error: unknown): void {
    const message =
      'what a request has used was reported with an invalid amount, which is not counted'
    this.#minuteLog.failure('report', this.#log, error, message)
  }

  /** Logs that a usage in a report states nothing, and is not counted. */
  wrongUsage (error: unknown): void {
    const message = 'what a model has used was reported without a usage; it is not counted'
    this.#minuteLog.failure('usage', this.#log, error, message)
  }

  /** Logs that the function `fromUsage` of a quota failed. */
  fromUsageFailed (error: unknown, quota: string, log: FastifyBaseLogger): void {
    const message = 'fromUsage failed; the request counts what it was granted'
    this.#minuteLog.failure(`fromUsage ${quota}`, log, error, message, { quota })
  }

  /** Logs that the function `interrupted` of a meter failed. */
  interruptedFailed (error: unknown): void {
    const message =
      'interrupted failed; the request counts at least what it was granted and what has arrived'
    this.#minuteLog.failure('interrupted', this.#log, error, message)
  }

  /** Warns that a response of a model stated no usage. */
  bodyWithoutUsage (): void {
    const message =
      "a model's response stated no usage, so that the request counts at least what it was " +
      'granted; a stream of the API of OpenAI states it with stream_options.include_usage'
    this.#minuteLog.line('body without usage', this.#log, 'warn', {}, message)
  }

  /** Logs that a response of a model could not be read. */
  unreadableBody (): void {
    const message =
      "a model's response could not be read, so that the request counts at least what it was " +
      'granted; if it is compressed, send no accept-encoding to the model'
    this.#minuteLog.line('unreadable body', this.#log, 'error', {}, message)
  }

  /** Logs that the mark of a route failed, whose requests are refused. */
  markFailed (error: unknown, log: FastifyBaseLogger): void {
    const message = 'the quotas of the request could not be determined; the request is not counted'
    this.#minuteLog.failure('mark', log, error, message)
  }

  /** Logs that the function of a cost failed. */
  costFailed (error: unknown, quota: string, log: FastifyBaseLogger): void {
    const message = 'the cost of the request could not be determined; the request is not counted'
    this.#minuteLog.failure(`cost ${quota}`, log, error, message, { quota })
  }

  /** Logs that a function of the caller's calendar failed. */
  windowFailed (error: unknown, quota: string, log: FastifyBaseLogger): void {
    const message =
      'the day, week or month of the caller could not be determined; the request is not counted'
    this.#minuteLog.failure(`window ${quota}`, log, error, message, { quota })
  }

  /** Logs that it failed when more was used than was granted. */
  windowBeyondFailed (error: unknown, quota: string, log: FastifyBaseLogger): void {
    const message =
      'the day, week or month of the caller could not be determined; what was used beyond the ' +
      'grant counts in the window of the admission'
    this.#minuteLog.failure(`window beyond ${quota}`, log, error, message, { quota })
  }

  /** Logs that the function `unreported` of a quota failed. */
  unreportedFailed (error: unknown, quota: string, log: FastifyBaseLogger): void {
    const message = 'unreported failed; the request counts what it was granted'
    this.#minuteLog.failure(`unreported failed ${quota}`, log, error, message, { quota })
  }

  /** Warns that a server has closed before everything was settled. */
  closedUnsettled (): void {
    const message =
      'the server has closed, and a quota store has not answered for a second; what it was to ' +
      'settle may stay counted until its window ends'
    logLine(this.#log, 'warn', {}, message)
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
