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

/** Reads the host's runtime preferences (docs/rules.md, "Limit"), before the caller is identified. A `Map` is a preference reader. */
export interface PreferenceReader {
  /**
   * @param key The name of the preference: `rate-limit.per-minute`, or `rate-limit.<name>.<limit>` for a named quota.
   * @param request The current request, so that a reader can return different limits for different callers.
   * @returns The value, or a promise of it. An integer, or a string that contains a decimal integer, is the limit. Undefined, null and a
   *   blank string mean that the preference is unset. If the reader throws or returns any other value, or if its promise rejects or does
   *   not settle within `preferenceTimeout`, the preference is unavailable and the configured limit applies.
   */
  get (key: string, request: FastifyRequest): unknown
}

/** Throws an `OptionError` unless the value is a preference reader. */
export function assertPreferenceReader (value: unknown, option: string): asserts value is PreferenceReader {
  withFunctions('a preference reader', 'get')(value, option)
}

/** A message that a preference was unavailable. */
export interface PreferenceFailure {
  readonly request: FastifyRequest
  /** The name of the preference. */
  readonly preference: string
}

/** The channel on which each `PreferenceFailure` is published. */
export const preferenceFailures = channel('fastify-llm-quota:preference-failure')

// How long an asynchronous reader may take by default, how long it is left alone after so many timeouts in a row, and how long it must
// work before its next failure is logged again, in milliseconds.
const defaultTimeout = 1000
const timeoutsBeforeRest = 3
const rest = 1000
const recovery = 60_000

const clock = (): number => performance.now()

/** Reads runtime preferences. */
export class Preferences {
  readonly #create: (name: string) => Preference
  // By name, since a reader can fail for one and not for another.
  readonly #preferences = new Map<string, Preference>()
  #reader: PreferenceReader | undefined

  /** @param timeout How long an asynchronous reader may take, in milliseconds. */
  constructor (log: FastifyBaseLogger, timeout: number = defaultTimeout) {
    this.#create = (name) => new Preference(name, timeout, log)
  }

  /** Sets the reader, when the server is ready. Without a reader, every preference is unset. */
  use (reader: PreferenceReader | undefined): void {
    this.#reader = reader
  }

  /** Returns the preference, an integer; `configured` if it is unset or unavailable. A promise only if the reader returned one. */
  read (name: string, request: FastifyRequest, configured: number): number | Promise<number> {
    if (this.#reader === undefined) return configured
    const preference = this.#preferences.get(name) ?? this.#create(name)
    this.#preferences.set(name, preference)
    return preference.read(this.#reader, request, configured)
  }
}

/** One preference. An outage of its reader is logged once, and delays only the first requests and one per second. */
class Preference {
  readonly #name: string
  readonly #timeout: number
  readonly #log: FastifyBaseLogger
  // Only timeouts open it.
  readonly #breaker: CircuitBreaker
  #isWarned = false
  #wellSince: number | undefined

  constructor (name: string, timeout: number, log: FastifyBaseLogger) {
    this.#name = name
    this.#timeout = timeout
    this.#log = log
    const message = `the quota's preference reader did not return in time ${timeoutsBeforeRest} times in a row; ` +
      'until it does, only one request per second calls it'
    const onChange = (isOpen: boolean, reason: unknown): void => { if (isOpen) logLine(log, 'warn', Object(reason), message) }
    this.#breaker = new CircuitBreaker({ failures: timeoutsBeforeRest, coolDown: rest, clock, onChange })
  }

  read (reader: PreferenceReader, request: FastifyRequest, configured: number): number | Promise<number> {
    const era = this.#breaker.startCall()
    if (era === undefined) return configured
    return attempt(() => {
      const read: unknown = reader.get(this.#name, request)
      return proceed(isPromise(read) ? within(this.#timeout, read, { clock, timers }) : read, (value) => {
        const integer = isUnset(value) ? configured : toInteger(value)
        if (integer === undefined) return this.#failed({ value: shown(value) }, request, configured, era)
        this.#breaker.succeeded(era)
        this.#wellSince ??= clock()
        return integer
      })
    }, (error) => {
      const reason = error instanceof TimeLimitError ? { timeout: this.#timeout } : { err: shownError(error) }
      return this.#failed(reason, request, configured, era)
    })
  }

  #failed (reason: object, request: FastifyRequest, configured: number, era: number): number {
    const isLate = 'timeout' in reason
    const properties = { ...reason, preference: this.#name, configured }
    const hasRecovered = this.#wellSince !== undefined && clock() - this.#wellSince >= recovery
    if (!this.#isWarned || hasRecovered) {
      logLine(this.#log, 'warn', properties, isLate
        ? 'the quota\'s preference reader did not return in time; the configured limit applies'
        : 'the quota\'s runtime preference is unavailable; the configured limit applies until the reader recovers')
    }
    this.#isWarned = true
    this.#wellSince = undefined
    if (isLate) this.#breaker.failed(era, properties)
    else this.#breaker.succeeded(era)
    if (preferenceFailures.hasSubscribers) preferenceFailures.publish({ request, preference: this.#name } satisfies PreferenceFailure)
    return configured
  }
}

function isUnset (value: unknown): boolean {
  return value == null || (typeof value === 'string' && value.trim() === '')
}
