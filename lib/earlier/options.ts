import { assertFunction, assertOptions, sharedChecks } from '../start/option-checks.js'
import type { QuotaOptions } from '../start/options.js'

/**
 * Options of `fastify.register(earlierQuotaPlugin, options)`. All are optional, and have the same meaning as those of `quotaPlugin`.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import earlierQuotaPlugin, { type EarlierQuotaOptions } from 'fastify-llm-quota/earlier'
 *
 * const options: EarlierQuotaOptions = { prefix: '/context', perMinute: 20 }
 * await Fastify().register(earlierQuotaPlugin, options)
 * ```
 */
export interface EarlierQuotaOptions extends Pick<QuotaOptions, 'prefix' | 'preferences' | 'perMinute' | 'dotenv'> {
  /** Returns monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number
}

/** Throws an `OptionError` if an option is unknown or has an invalid value. */
export function assertEarlierQuotaOptions (options: object): asserts options is EarlierQuotaOptions {
  assertOptions<EarlierQuotaOptions>(options, { ...sharedChecks, clock: assertFunction })
}
