import type { FastifyRequest } from 'fastify'
import { withFunctions } from '../option-checks.js'

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
