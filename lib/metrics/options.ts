import type { OpenMetricsContentType, PrometheusContentType, Registry } from 'prom-client'
import { hasFunction, OptionError } from '../errors.js'

/**
 * A registry of `prom-client`, for either content type.
 *
 * @example
 * ```ts
 * import type { QuotaMetricsRegistry } from 'fastify-llm-quota/metrics'
 * import { register } from 'prom-client'
 *
 * const registry: QuotaMetricsRegistry = register
 * console.log(registry.contentType) // text/plain; version=0.0.4; charset=utf-8
 * ```
 */
export type QuotaMetricsRegistry = Registry<PrometheusContentType> | Registry<OpenMetricsContentType>

/**
 * Options of `fastify.register(quotaMetricsPlugin, options)`. Fastify's own `register` options are also accepted.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaMetricsPlugin, { type QuotaMetricsOptions } from 'fastify-llm-quota/metrics'
 * import { Registry } from 'prom-client'
 *
 * const options: QuotaMetricsOptions = { registry: new Registry() }
 * await Fastify().register(quotaMetricsPlugin, options)
 * ```
 */
export interface QuotaMetricsOptions {
  /** The registry for the metrics. Default: `prom-client`'s default registry, `register`. */
  readonly registry?: QuotaMetricsRegistry
}

const registerOptions: readonly string[] = ['prefix', 'logLevel', 'logSerializers']

/** Throws an `OptionError` if an option is unknown or has an invalid value. */
export function assertMetricsOptions (options: object): asserts options is QuotaMetricsOptions {
  for (const [name, value] of Object.entries(options)) {
    if (name === 'registry') assertRegistry(value)
    else if (!registerOptions.includes(name)) throw new OptionError(name, 'does not exist', value)
  }
}

function assertRegistry (value: unknown): void {
  if (value === undefined || (hasFunction(value, 'registerMetric') && hasFunction(value, 'getSingleMetric'))) return
  throw new OptionError('registry', 'must be a registry of prom-client', value)
}
