import type { FastifyBaseLogger } from 'fastify'
import { logLine, MinuteLog } from '../log.js'

/** A unit that a quota can have. What else a host reports is not shown in the log. */
const unitPattern = /^[a-z][a-z-]{0,31}$/

/** Of how many units nobody counts a warning can be logged. Bounded, as hosts name them freely. */
const mostUncountedUnits = 100

/** Logs what fails beside the stores, and what is not reported. Mistakes come once a minute. */
export class QuotaLog {
  readonly #log: FastifyBaseLogger
  readonly #minuteLog = new MinuteLog()
  readonly #uncountedUnits = new Set<string>()

  /** @param log The log of the server, for what belongs to no request. */
  constructor (log: FastifyBaseLogger) {
    this.#log = log
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

  /** Logs that a report, or an amount in it, is not counted. */
  wrongReport (error: unknown): void {
    const message =
      'what a request has used was reported with an invalid amount, which is not counted'
    this.#minuteLog.failure('report', this.#log, error, message)
  }

  /** Logs that a report is not counted, because the permit was handed over or has ended. */
  lateReport (error: unknown): void {
    const message = 'what a request has used was reported too late, which is not counted'
    this.#minuteLog.failure('late report', this.#log, error, message)
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

  /** Logs that the function `interrupted` of a meter failed, or returned no usage. */
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

  /** Logs that a refusal could not be sent, so that the response was broken off. */
  refusalNotSent (error: unknown, log: FastifyBaseLogger): void {
    const message = 'a refusal could not be sent; the response is broken off'
    this.#minuteLog.failure('refusal', log, error, message)
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
}
