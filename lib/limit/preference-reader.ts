import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify'
import { OptionError, hasFunction, shown } from './errors.js'
import { toInteger } from './integer.js'
import { perMinutePreference } from './limit.js'
import { isThenable } from './thenable.js'

/**
 * The host's runtime preferences. A `Map` is one.
 *
 * The quota asks for `rate-limit.per-minute` on every protected request (specification, section 2).
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { type PreferenceReader } from 'fastify-llm-quota'
 *
 * const preferences: PreferenceReader = {
 *   get: (key, request) => key === 'rate-limit.per-minute' && request.headers['x-plan'] === 'team' ? 100 : undefined
 * }
 * await Fastify().register(quotaPlugin, { preferences })
 * ```
 */
export interface PreferenceReader {
  /**
   * @param key The preference's name.
   * @param request The request that asks, so that a reader can give one caller another limit than the rest.
   * @returns The value, at once or as a promise. An integer, or a string of one in decimal, is the limit; undefined, null
   *   and a blank string mean that it is not set. Anything else, and a throw or rejection, counts as unavailable.
   */
  get (key: string, request: FastifyRequest): unknown
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The runtime preferences, where the host decorated them or gave them to the quota. */
    preferences?: PreferenceReader
  }
}

/** Throws, naming the option or decorator, unless it is a preference reader. */
export function assertPreferences (name: string, value: unknown): asserts value is PreferenceReader {
  if (!hasFunction(value, 'get')) throw new OptionError(name, 'must be a preference reader with a function get', shown(value))
}

/** Decorates an instance with the preferences given, which must then be the only ones. */
export function decorateWithPreferences (fastify: FastifyInstance, given: PreferenceReader | undefined): void {
  if (given === undefined) return
  if (fastify.hasDecorator('preferences')) {
    throw new OptionError('preferences', 'is given where the host has decorated its own preferences', shown(given))
  }
  fastify.decorate('preferences', given)
}

/**
 * Finds the configured limit for a request: the runtime preference where there is one, else the configured property
 * (specification, section 4, step 1).
 */
export class LimitReader {
  #preferences: PreferenceReader | undefined
  readonly #configured: number
  readonly #log: FastifyBaseLogger
  #available = true

  constructor (configured: number, log: FastifyBaseLogger) {
    this.#configured = configured
    this.#log = log
  }

  /** Takes the preferences of an instance that is ready; without any, the configured property holds. */
  usePreferences ({ preferences }: { preferences?: PreferenceReader | undefined }): void {
    if (preferences === undefined) return
    assertPreferences('preferences, as the host decorated it,', preferences)
    this.#preferences = preferences
  }

  /** The limit as it is configured, an integer. A promise only when the reader gives one. */
  read (request: FastifyRequest): number | Promise<number> {
    if (this.#preferences === undefined) return this.#configured
    try {
      const value = this.#preferences.get(perMinutePreference, request)
      return isThenable(value) ? this.#await(value) : this.#interpret(value)
    } catch (error) {
      return this.#unavailable({ err: error })
    }
  }

  async #await (promise: PromiseLike<unknown>): Promise<number> {
    try {
      return this.#interpret(await promise)
    } catch (error) {
      return this.#unavailable({ err: error })
    }
  }

  #interpret (value: unknown): number {
    const integer = isUnset(value) ? this.#configured : toInteger(value)
    if (integer === undefined) return this.#unavailable({ value: shown(value) })
    this.#available = true
    return integer
  }

  #unavailable (reason: object): number {
    if (this.#available) {
      this.#log.warn({ ...reason, preference: perMinutePreference, configured: this.#configured },
        'the quota\'s runtime preference is unavailable; the configured property holds until the reader answers well again')
    }
    this.#available = false
    return this.#configured
  }
}

function isUnset (value: unknown): boolean {
  return value == null || (typeof value === 'string' && value.trim() === '')
}
