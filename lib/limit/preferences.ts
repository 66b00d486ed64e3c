import timers from 'node:timers'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { preferenceFailures, type PreferenceFailure } from '../channels.js'
import { CircuitBreaker } from '../circuit-breaker.js'
import { format } from '../errors.js'
import { logLine, loggableError } from '../log.js'
import { withFunctions } from '../option-checks.js'
import { isPromise } from '../promises.js'
import { TimeLimitError, withTimeout } from '../time-limit.js'
import { effectiveLimit, toInteger } from './limit.js'

/**
 * Reads the host's runtime preferences (docs/rules.md, "Limit"), before the caller is identified. A
 * `Map` is a preference reader.
 */
export interface PreferenceReader {
  /**
   * @param key The name of the preference: `rate-limit.per-minute`, or `rate-limit.<name>.<limit>`
   *   for a named quota.
   * @param request The current request, so that a reader can return different limits for different
   *   callers. Undefined for `fastify.quotaAcquire` with an authentication.
   * @returns The value, or a promise of it. An integer, or a string that contains a decimal
   *   integer, is the limit. Undefined, null and a blank string mean that the preference is unset.
   *   If the reader throws or returns any other value, or if its promise rejects or does not settle
   *   within `preferenceTimeout`, the preference is unavailable and the configured limit applies.
   */
  get(key: string, request: FastifyRequest): unknown
}

/** How a reader is called: without a request if there is none. */
interface CalledReader {
  get(key: string, request: FastifyRequest | undefined): unknown
}

export const assertPreferenceReader: (
  value: unknown,
  option: string
) => asserts value is PreferenceReader = withFunctions('a preference reader', 'get')

/** How many timeouts in a row leave a reader alone. */
const timeoutsBeforeRest = 3

/** How long a reader is then left alone, in milliseconds. */
const rest = 1000

/** How long a reader must work before its next failure is logged again, in milliseconds. */
const recovery = 60_000

const late = "the quota's preference reader did not return in time"
const unavailable =
  "the quota's runtime preference is unavailable; " +
  'the configured limit applies until the reader recovers'
const resting =
  `${late} ${timeoutsBeforeRest} times in a row; ` +
  'until it does, only one request per second calls it'

function clock (): number {
  return performance.now()
}

/** The host's runtime preferences. */
export class Preferences {
  /** Set when the server is ready. Without a reader, every preference is unset. */
  reader: PreferenceReader | undefined

  /** @param timeout How long an asynchronous reader may take, in milliseconds. */
  constructor (
    readonly log: FastifyBaseLogger,
    readonly timeout = 1000
  ) {}

  /** @param configured The limit that applies if the preference is unset or unavailable. */
  of (name: string, configured: number): Preference {
    return new Preference(this, name, configured)
  }
}

/**
 * The preference of one limit. An outage of the preference is logged once, and delays only the
 * first requests and one per second.
 */
class Preference {
  readonly #preferences: Preferences
  readonly #breaker: CircuitBreaker

  /** Undefined during an outage. The first one is logged, however soon it begins. */
  #wellSince: number | undefined = -Infinity

  constructor (
    preferences: Preferences,
    readonly name: string,
    readonly configured: number
  ) {
    this.#preferences = preferences
    // Only timeouts open it.
    this.#breaker = new CircuitBreaker({
      failures: timeoutsBeforeRest,
      coolDown: rest,
      clock,
      onChange: (isOpen) => {
        if (isOpen) this.#warn({ timeout: preferences.timeout }, resting)
      }
    })
  }

  /**
   * Returns the effective limit for a request, or for an authentication without one. A promise only
   * if the reader returned one.
   */
  limitOf (request: FastifyRequest | undefined): number | Promise<number> {
    const value = this.valueOf(request)
    return typeof value === 'number' ? effectiveLimit(value) : value.then(effectiveLimit)
  }

  /**
   * Returns the value of the preference, or `configured` if it is unset or unavailable. A promise
   * only if the reader returned one.
   */
  valueOf (request: FastifyRequest | undefined): number | Promise<number> {
    const reader: CalledReader | undefined = this.#preferences.reader
    if (reader === undefined) return this.configured
    const generation = this.#breaker.startCall()
    if (generation === undefined) return this.configured
    try {
      const value = reader.get(this.name, request)
      if (isPromise(value)) return this.#valueOfPromise(value, request, generation)
      return this.#integerIn(value, request, generation)
    } catch (error) {
      return this.#failed({ err: loggableError(error) }, request, generation)
    }
  }

  async #valueOfPromise (
    promise: PromiseLike<unknown>,
    request: FastifyRequest | undefined,
    generation: number
  ): Promise<number> {
    const { timeout } = this.#preferences
    try {
      const value = await withTimeout(timeout, promise, { clock, timers })
      return this.#integerIn(value, request, generation)
    } catch (error) {
      if (error instanceof TimeLimitError) return this.#timedOut(request, generation)
      return this.#failed({ err: loggableError(error) }, request, generation)
    }
  }

  #integerIn (value: unknown, request: FastifyRequest | undefined, generation: number): number {
    const isUnset = value == null || (typeof value === 'string' && value.trim() === '')
    const integer = isUnset ? this.configured : toInteger(value)
    if (integer === undefined) return this.#failed({ value: format(value) }, request, generation)
    this.#breaker.succeeded(generation)
    this.#wellSince ??= clock()
    return integer
  }

  /** @param reason What is logged about it. */
  #failed (reason: object, request: FastifyRequest | undefined, generation: number): number {
    this.#beginOutage(reason, unavailable, request)
    // The reader answered, so that it does not delay the next request.
    this.#breaker.succeeded(generation)
    return this.configured
  }

  #timedOut (request: FastifyRequest | undefined, generation: number): number {
    const { timeout } = this.#preferences
    this.#beginOutage({ timeout }, `${late}; the configured limit applies`, request)
    this.#breaker.failed(generation, undefined)
    return this.configured
  }

  #beginOutage (reason: object, message: string, request: FastifyRequest | undefined): void {
    const isNew = this.#wellSince !== undefined && clock() - this.#wellSince >= recovery
    this.#wellSince = undefined
    if (isNew) this.#warn(reason, message)
    if (!preferenceFailures.hasSubscribers) return
    const failure: PreferenceFailure = { request: request ?? null, preference: this.name }
    preferenceFailures.publish(failure)
  }

  #warn (reason: object, message: string): void {
    const properties = { ...reason, preference: this.name, configured: this.configured }
    logLine(this.#preferences.log, 'warn', properties, message)
  }
}
