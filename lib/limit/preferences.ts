import timers from 'node:timers'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { ServerChannels } from '../channels.js'
import { CircuitBreaker } from '../circuit-breaker.js'
import { formatType } from '../errors.js'
import { logLine, loggableError } from '../log.js'
import { withFunctions } from '../option-checks.js'
import { isPromise, type Eventual } from '../promises.js'
import { TimeLimitError, withTimeout } from '../time-limit.js'
import { toInteger } from './limit.js'

/**
 * Reads the host's runtime preferences (docs/rules.md, "Limit"). A `Map` is a preference
 * reader.
 */
export interface PreferenceReader {
  /**
   * @param key The name of the preference: `rate-limit.per-minute`, or `rate-limit.<name>.<limit>`
   *   for a named quota.
   * @param request The current request, so that a reader can return different limits for different
   *   callers. Null for a permit without a request: `fastify.quotaAcquire` with an authentication.
   * @returns The value, or a promise of it. An integer, or a string that contains a decimal
   *   integer, is the limit. Undefined, null and a blank string mean that the preference is unset.
   *   If the reader throws or returns any other value, or if its promise rejects or does not settle
   *   within `preferenceTimeout`, the preference is unavailable and the configured limit applies.
   */
  get(key: string, request: FastifyRequest | null): unknown
}

export const assertPreferenceReader: (
  value: unknown,
  option: string
) => asserts value is PreferenceReader = withFunctions('a preference reader', 'get')

/** After how many timeouts in a row a reader is left alone. */
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

  /**
   * @param channels Where the names of unavailable preferences are published.
   * @param timeout How long the host may take to determine a limit, in milliseconds.
   */
  constructor (
    readonly log: FastifyBaseLogger,
    readonly channels: ServerChannels,
    readonly timeout = 1000
  ) {}

  /** @param configured What is logged about the limit that applies if it is unavailable. */
  of (name: string, configured: number | string): Preference {
    return new Preference(this, name, configured)
  }

  /** Settles as a promise of the host does, or rejects with a `TimeLimitError` if that is late. */
  inTime<Value> (promise: PromiseLike<Value>): Promise<Value> {
    // Referenced timers, so that a process with nothing else to do, such as a script that takes a
    // permit, does not end before the configured limit applies.
    return withTimeout(this.timeout, promise, { timers })
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
    readonly configured: number | string
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
   * Returns the value of the preference; undefined if it is unset or unavailable. A promise only if
   * the reader returned one. Neither throws nor rejects.
   *
   * @param request Null for a permit without a request.
   */
  valueFor (request: FastifyRequest | null): Eventual<number | undefined> {
    const { reader } = this.#preferences
    if (reader === undefined) return undefined
    const phase = this.#breaker.startCall()
    if (phase === undefined) return undefined
    try {
      const value = reader.get(this.name, request)
      if (isPromise(value)) return this.#valueOfPromise(value, phase)
      return this.#integerIn(value, phase)
    } catch (error) {
      return this.#failed({ err: loggableError(error) }, phase)
    }
  }

  async #valueOfPromise (
    promise: PromiseLike<unknown>,
    phase: number
  ): Promise<number | undefined> {
    try {
      return this.#integerIn(await this.#preferences.inTime(promise), phase)
    } catch (error) {
      if (error instanceof TimeLimitError) return this.#timedOut(phase)
      return this.#failed({ err: loggableError(error) }, phase)
    }
  }

  #integerIn (value: unknown, phase: number): number | undefined {
    const isUnset = value == null || (typeof value === 'string' && value.trim() === '')
    const integer = toInteger(value)
    if (integer === undefined && !isUnset) return this.#failed({ value: formatType(value) }, phase)
    this.#breaker.succeeded(phase)
    this.#wellSince ??= clock()
    return integer
  }

  /** @param reason What is logged about it. */
  #failed (reason: object, phase: number): undefined {
    this.#recordFailure(reason, unavailable)
    // A reader that fails without a timeout delays no request.
    this.#breaker.succeeded(phase)
  }

  #timedOut (phase: number): undefined {
    const { timeout } = this.#preferences
    this.#recordFailure({ timeout }, `${late}; the configured limit applies`)
    this.#breaker.failed(phase, undefined)
  }

  /** Publishes each failure, and logs the first one of an outage. */
  #recordFailure (reason: object, message: string): void {
    const isNew = this.#wellSince !== undefined && clock() - this.#wellSince >= recovery
    this.#wellSince = undefined
    if (isNew) this.#warn(reason, message)
    this.#preferences.channels.preferenceFailures.publish(this.name)
  }

  #warn (reason: object, message: string): void {
    const properties = { ...reason, preference: this.name, configured: this.configured }
    logLine(this.#preferences.log, 'warn', properties, message)
  }
}
