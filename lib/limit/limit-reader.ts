import type { FastifyRequest } from 'fastify'
import type { Pending } from '../pending.js'
import type { Preferences } from './preferences.js'

/** Reads the limit of one quota for a request: its runtime preference if it is set, otherwise its configured limit. */
export class LimitReader {
  readonly #preferences: Preferences
  readonly #key: string
  readonly #configured: number

  /**
   * @param preferences The runtime preferences, which all quotas of a server share.
   * @param key The name of the preference that holds the quota's limit.
   * @param configured The limit that applies if the preference is not set or is unavailable; an integer.
   */
  constructor (preferences: Preferences, key: string, configured: number) {
    this.#preferences = preferences
    this.#key = key
    this.#configured = configured
  }

  /** Returns the limit, an integer, before `effectiveLimit` is applied. The result is synchronous unless the reader returns a promise. */
  read (request: FastifyRequest): number | Pending<number> {
    // Most services have no reader.
    return this.#preferences.hasReader ? this.#preferences.read(this.#key, request, this.#configured) : this.#configured
  }
}
