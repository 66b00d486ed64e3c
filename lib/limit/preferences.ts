import timers from 'node:timers'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { preferenceFailures, type PreferenceFailure } from '../channels.js'
import { formatType, TimeLimitError } from '../errors.js'
import { logLine, loggableError } from '../log.js'
import { withFunctions } from '../option-checks.js'
import { isPromise, type Eventual } from '../promises.js'
import { withTimeout } from '../time-limit.js'
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

/** How long it is then left alone, before one request calls it again, in milliseconds. */
const rest = 1000

/** How long a reader must work before its next failure is warned of, in milliseconds. */
const recovery = 60_000

const unavailable =
  "the quota's runtime preference is unavailable; " +
  'the configured limit applies until the reader recovers'
const late =
  "the quota's preference reader did not return in time; " +
  'the configured limit applies until the reader recovers, and after ' +
  `${timeoutsBeforeRest} timeouts in a row, only one request per second calls it`

/** The host's runtime preferences. */
export class Preferences {
  /** Without a reader, every preference is unset. */
  reader: PreferenceReader | undefined

  /**
   * @param server The server of Node.js, which messages about unavailable preferences name.
   * @param timeout How long the host may take to determine a limit, in milliseconds.
   */
  constructor (
    readonly log: FastifyBaseLogger,
    readonly server: object,
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
 * The preference of one limit, and how its reader has worked so far: each preference is warned of,
 * and left alone, on its own.
 */
class Preference {
  readonly #preferences: Preferences

  /**
   * Since when the reader has worked, in monotonic milliseconds; undefined if it failed last. The
   * first failure is warned of, however soon it comes.
   */
  #worksSince: number | undefined = -Infinity

  #timeoutsInARow = 0

  /** Until when the reader is left alone, in monotonic milliseconds. */
  #restsUntil = -Infinity

  constructor (
    preferences: Preferences,
    readonly name: string,
    readonly configured: number | string
  ) {
    this.#preferences = preferences
  }

  /**
   * Returns the value of the preference; undefined if it is unset or unavailable. A promise only if
   * the reader returned one. Neither throws nor rejects.
   *
   * @param request Null for a permit without a request.
   */
  valueFor (request: FastifyRequest | null): Eventual<number | undefined> {
    const { reader } = this.#preferences
    if (reader === undefined || !this.#mayCall()) return undefined
    try {
      const value = reader.get(this.name, request)
      return isPromise(value) ? this.#valueOfPromise(value) : this.#integerIn(value)
    } catch (error) {
      return this.#threw(error)
    }
  }

  /** Whether a request may call the reader: after too many timeouts, one per second may. */
  #mayCall (): boolean {
    if (this.#timeoutsInARow < timeoutsBeforeRest) return true
    const now = performance.now()
    if (now < this.#restsUntil) return false
    this.#restsUntil = now + rest
    return true
  }

  async #valueOfPromise (promise: PromiseLike<unknown>): Promise<number | undefined> {
    try {
      return this.#integerIn(await this.#preferences.inTime(promise))
    } catch (error) {
      return error instanceof TimeLimitError ? this.#timedOut() : this.#threw(error)
    }
  }

  #integerIn (value: unknown): number | undefined {
    this.#timeoutsInARow = 0
    const integer = toInteger(value)
    const isUnset = value == null || (typeof value === 'string' && value.trim() === '')
    if (integer === undefined && !isUnset) {
      return this.#failed({ value: formatType(value) }, unavailable)
    }
    this.#worksSince ??= performance.now()
    return integer
  }

  #threw (error: unknown): undefined {
    // Only timeouts make a reader rest.
    this.#timeoutsInARow = 0
    this.#failed({ err: loggableError(error) }, unavailable)
  }

  #timedOut (): undefined {
    this.#timeoutsInARow += 1
    this.#restsUntil = performance.now() + rest
    this.#failed({ timeout: this.#preferences.timeout }, late)
  }

  /**
   * Publishes a failure, and warns of it unless it belongs to an outage that was warned of: until
   * the reader has worked for a minute, all failures do.
   *
   * @param reason What is logged about it.
   */
  #failed (reason: object, message: string): undefined {
    const { log, server } = this.#preferences
    const isNew =
      this.#worksSince !== undefined && performance.now() - this.#worksSince >= recovery
    this.#worksSince = undefined
    const preference = this.name
    preferenceFailures.publish({ server, preference } satisfies PreferenceFailure)
    if (!isNew) return
    const properties = { ...reason, preference, configured: this.configured }
    logLine(log, 'warn', properties, message)
  }
}
