import { channel } from 'node:diagnostics_channel'
import timers from 'node:timers'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { CircuitBreaker } from '../circuit-breaker.js'
import { shown } from '../errors.js'
import { logLine, shownError } from '../log.js'
import { withFunctions } from '../option-checks.js'
import { attempt, isPromise, proceed } from '../promises.js'
import { TimeLimitError, within } from '../time-limit.js'
import { toInteger } from './limit.js'

/**
 * Reads the host's runtime preferences (docs/rules.md, "Limit"), before the caller is identified. A
 * `Map` is a preference reader.
 */
export interface PreferenceReader {
  /**
   * @param key The name of the preference: `rate-limit.per-minute`, or `rate-limit.<name>.<limit>`
   *   for a named quota.
   * @param request The current request, so that a reader can return different limits for different
   *   callers.
   * @returns The value, or a promise of it. An integer, or a string that contains a decimal
   *   integer, is the limit. Undefined, null and a blank string mean that the preference is unset.
   *   If the reader throws or returns any other value, or if its promise rejects or does not settle
   *   within `preferenceTimeout`, the preference is unavailable and the configured limit applies.
   */
  get(key: string, request: FastifyRequest): unknown
}

export const assertPreferenceReader: (
  value: unknown,
  option: string
) => asserts value is PreferenceReader = withFunctions('a preference reader', 'get')

/** A message that a preference was unavailable. */
export interface PreferenceFailure {
  readonly request: FastifyRequest
  /** The name of the preference. */
  readonly preference: string
}

/** The channel on which each `PreferenceFailure` is published. */
export const preferenceFailures = channel('fastify-llm-quota:preference-failure')

// How long a reader is left alone after so many timeouts in a row, and how long it must work before
// its next failure is logged again, in milliseconds.
const [rest, timeoutsBeforeRest, recovery] = [1000, 3, 60_000]
const late = "the quota's preference reader did not return in time"
const unavailable =
  "the quota's runtime preference is unavailable; the configured limit applies until the reader recovers"
const clock = (): number => performance.now()

/** The host's runtime preferences. */
export class Preferences {
  /** Set when the server is ready. Without a reader, every preference is unset. */
  reader: PreferenceReader | undefined

  /** @param timeout How long an asynchronous reader may take, in milliseconds. */
  constructor (
    readonly log: FastifyBaseLogger,
    readonly timeout = 1000
  ) {}

  /**
   * Returns a function that reads a preference for a request: an integer, or `configured` if it is
   * unset or unavailable; a promise only if the reader returned one. An outage of the preference is
   * logged once, and delays only the first requests and one per second.
   */
  of (
    preference: string,
    configured: number
  ): (request: FastifyRequest) => number | Promise<number> {
    const { log, timeout } = this
    const resting = `${late} ${timeoutsBeforeRest} times in a row; until it does, only one request per second calls it`
    const onChange = (isOpen: boolean, reason: unknown): void => {
      if (isOpen) logLine(log, 'warn', Object(reason), resting)
    }
    // Only timeouts open it.
    const breaker = new CircuitBreaker({
      failures: timeoutsBeforeRest,
      coolDown: rest,
      clock,
      onChange
    })
    // Undefined during an outage. The first one is logged, however soon it begins.
    let wellSince: number | undefined = -Infinity

    function failed (reason: object, request: FastifyRequest, era: number): number {
      const isLate = 'timeout' in reason
      const properties = { ...reason, preference, configured }
      const isNew = wellSince !== undefined && clock() - wellSince >= recovery
      if (isNew) {
        logLine(
          log,
          'warn',
          properties,
          isLate ? `${late}; the configured limit applies` : unavailable
        )
      }
      wellSince = undefined
      if (isLate) breaker.failed(era, properties)
      else breaker.succeeded(era)
      if (preferenceFailures.hasSubscribers) {
        preferenceFailures.publish({ request, preference } satisfies PreferenceFailure)
      }
      return configured
    }

    return (request) => {
      const { reader } = this
      const era = reader === undefined ? undefined : breaker.startCall()
      if (reader === undefined || era === undefined) return configured
      return attempt(
        () => {
          const read: unknown = reader.get(preference, request)
          return proceed(
            isPromise(read) ? within(timeout, read, { clock, timers }) : read,
            (value) => {
              const isUnset = value == null || (typeof value === 'string' && value.trim() === '')
              const integer = isUnset ? configured : toInteger(value)
              if (integer === undefined) return failed({ value: shown(value) }, request, era)
              breaker.succeeded(era)
              wellSince ??= clock()
              return integer
            }
          )
        },
        (error) =>
          failed(
            error instanceof TimeLimitError ? { timeout } : { err: shownError(error) },
            request,
            era
          )
      )
    }
  }
}
