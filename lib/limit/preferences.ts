import { channel } from 'node:diagnostics_channel'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { shown } from '../errors.js'
import { shownError } from '../log.js'
import { isPromise } from '../promises.js'
import { withFunctions } from '../option-checks.js'
import { toInteger } from './limit.js'
import { ReaderHealth } from './reader-health.js'

/**
 * Reads the host's runtime preferences, before the caller is identified. A `Map` is a preference reader.
 *
 * The default quota reads `rate-limit.per-minute` for every request that is subject to it. A named quota reads
 * `rate-limit.<name>.<limit>` (docs/rules.md, "Limit").
 */
export interface PreferenceReader {
  /**
   * @param key The name of the preference.
   * @param request The current request, so that a reader can return different limits for different callers.
   * @returns The value, or a promise for it. An integer, or a string that contains a decimal integer, is the limit. Undefined, null
   *   and a blank string mean that the preference is unset. If the reader throws or returns any other value, or if its promise
   *   rejects or does not settle within `preferenceTimeout`, the preference is unavailable and the configured limit applies.
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

/** How long an asynchronous preference reader may take by default, in milliseconds. */
const defaultTimeout = 1000

const tooLate = Symbol('too late')

/** Reads runtime preferences. */
export class Preferences {
  readonly #timeout: number
  readonly #log: FastifyBaseLogger
  // By preference, since a reader can fail for one and not for another.
  readonly #healths = new Map<string, ReaderHealth>()
  #reader: PreferenceReader | undefined

  /** @param timeout How long an asynchronous reader may take, in milliseconds. */
  constructor (log: FastifyBaseLogger, timeout: number = defaultTimeout) {
    this.#log = log
    this.#timeout = timeout
  }

  /** Sets the reader, when the server is ready. Without a reader, every preference is unset. */
  use (reader: PreferenceReader | undefined): void {
    this.#reader = reader
  }

  /** Returns the preference, an integer; `configured` if it is unset or unavailable. A promise only if the reader returned one. */
  read (preference: string, request: FastifyRequest, configured: number): number | Promise<number> {
    if (this.#reader === undefined || !this.#healthOf(preference).mayBeAsked()) return configured
    try {
      const value: unknown = this.#reader.get(preference, request)
      return isPromise(value) ? this.#await(value, preference, request, configured) : this.#interpret(value, preference, request, configured)
    } catch (error) {
      return this.#failed({ err: shownError(error) }, preference, request, configured)
    }
  }

  async #await (promise: PromiseLike<unknown>, preference: string, request: FastifyRequest, configured: number): Promise<number> {
    try {
      const value = await this.#inTime(promise)
      return this.#interpret(value, preference, request, configured)
    } catch (error) {
      return this.#failed({ err: shownError(error) }, preference, request, configured)
    }
  }

  #inTime (promise: PromiseLike<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      // Deferred by setImmediate so that a value that arrived while the event loop was blocked is read first and used.
      const timer = setTimeout(() => { setImmediate(resolve, tooLate) }, this.#timeout)
      Promise.resolve(promise).finally(() => { clearTimeout(timer) }).then(resolve, reject)
    })
  }

  #interpret (value: unknown, preference: string, request: FastifyRequest, configured: number): number {
    const integer = isUnset(value) ? configured : toInteger(value)
    if (integer === undefined) return this.#failed(value === tooLate ? tooLate : { value: shown(value) }, preference, request, configured)
    this.#healthOf(preference).succeeded()
    return integer
  }

  #failed (reason: object | typeof tooLate, preference: string, request: FastifyRequest, configured: number): number {
    const health = this.#healthOf(preference)
    if (reason === tooLate) health.timedOut({ timeout: this.#timeout, preference, configured })
    else health.failed({ ...reason, preference, configured })
    if (preferenceFailures.hasSubscribers) preferenceFailures.publish({ request, preference } satisfies PreferenceFailure)
    return configured
  }

  #healthOf (preference: string): ReaderHealth {
    let health = this.#healths.get(preference)
    if (health === undefined) {
      health = new ReaderHealth(this.#log)
      this.#healths.set(preference, health)
    }
    return health
  }
}

function isUnset (value: unknown): boolean {
  return value == null || (typeof value === 'string' && value.trim() === '')
}
