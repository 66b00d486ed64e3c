import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { shown, shownError } from '../errors.js'
import { Pending } from '../pending.js'
import { isThenable, whenSettled } from '../thenable.js'
import { toInteger } from './integer.js'
import type { PreferenceReader } from './preference-reader.js'
import { PreferenceWarnings } from './preference-warnings.js'
import { Rest } from './rest.js'

/** How long an asynchronous preference reader may take by default, in milliseconds. */
const defaultPreferenceTimeout = 1000

/** Reads runtime preferences. Pauses calls to the reader after a timeout. */
export class Preferences {
  readonly #timeout: number
  readonly #warnings: PreferenceWarnings
  readonly #rest = new Rest()
  #reader: PreferenceReader | undefined

  /** @param timeout How long an asynchronous reader may take, in milliseconds. */
  constructor (log: FastifyBaseLogger, timeout: number = defaultPreferenceTimeout) {
    this.#warnings = new PreferenceWarnings(log)
    this.#timeout = timeout
  }

  /** Sets the reader. Called when the server is ready. Without a reader, no preference is set. */
  use (reader: PreferenceReader | undefined): void {
    this.#reader = reader
  }

  /** Whether there is a reader. */
  get hasReader (): boolean {
    return this.#reader !== undefined
  }

  /** Returns the preference, an integer; `configured` if it is not set or is unavailable. */
  read (key: string, request: FastifyRequest, configured: number): number | Pending<number> {
    if (this.#reader === undefined || !this.#rest.allows()) return configured
    let value: unknown
    try {
      value = this.#reader.get(key, request)
      if (isThenable(value)) return this.#await(value, key, configured)
    } catch (error) {
      return this.#failed(error, key, configured)
    }
    return this.#interpret(value, key, configured)
  }

  #await (promise: PromiseLike<unknown>, key: string, configured: number): Pending<number> {
    const limit = new Pending<number>()
    const settle = (read: () => number): void => {
      clearTimeout(timer)
      if (limit.isOpen) limit.settle(read)
    }
    // Deferred by setImmediate so that an answer that arrived while the event loop was blocked is read first and used.
    const timer = setTimeout(() => { setImmediate(settle, () => this.#timedOut(key, configured)) }, this.#timeout)
    whenSettled(promise,
      (value) => { settle(() => this.#interpret(value, key, configured)) },
      (error) => { settle(() => this.#failed(error, key, configured)) })
    return limit
  }

  #interpret (value: unknown, key: string, configured: number): number {
    const integer = isUnset(value) ? configured : toInteger(value)
    this.#rest.end()
    if (integer === undefined) return this.#unavailable(key, configured, { value: primitiveShown(value) })
    this.#warnings.answered()
    return integer
  }

  #failed (error: unknown, key: string, configured: number): number {
    this.#rest.end()
    return this.#unavailable(key, configured, { err: shownError(error) })
  }

  #timedOut (key: string, configured: number): number {
    this.#rest.begin()
    return this.#unavailable(key, configured, { timeout: this.#timeout })
  }

  #unavailable (preference: string, configured: number, reason: object): number {
    this.#warnings.unavailable({ ...reason, preference, configured })
    return configured
  }
}

function isUnset (value: unknown): boolean {
  return value == null || (typeof value === 'string' && value.trim() === '')
}

// An object is not logged because it can contain secrets, for example if it is an error of a client.
function primitiveShown (value: unknown): string {
  return typeof value === 'object' ? 'an object' : shown(value)
}
