import { assertFunction, assertOptions, registerOptions } from '../option-checks.js'
import { sharedChecks, type QuotaOptions } from '../start/options.js'

/** Options of `fastify.register(earlierQuotaPlugin, options)`. All are optional, and have the same meaning as those of `quotaPlugin`. */
export interface EarlierQuotaOptions extends Pick<QuotaOptions, 'prefix' | 'preferences' | 'perMinute' | 'dotenv'> {
  /** Returns monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number
}

/** Throws an `OptionError` if an option is unknown or has an invalid value. */
export function assertEarlierQuotaOptions (options: unknown): asserts options is EarlierQuotaOptions {
  assertOptions<EarlierQuotaOptions>(options, { ...registerOptions, ...sharedChecks, clock: assertFunction })
}
