import { OptionError, shown } from '../errors.js'
import { assertOptions, limitChecks, type QuotaOptions } from '../options.js'

/**
 * What `fastify.register(earlierQuotaPlugin, options)` takes. Every option is optional; they mean what the quota's do.
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
  /** Gives monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number
}

/** Throws an `OptionError` that names the option and the value it got, unless all of them can be used. */
export function assertEarlierQuotaOptions (options: object): asserts options is EarlierQuotaOptions {
  assertOptions<EarlierQuotaOptions>(options, { ...limitChecks, clock: assertClock })
}

function assertClock (value: unknown): void {
  if (typeof value !== 'function') throw new OptionError('clock', 'must be a function', shown(value))
}
