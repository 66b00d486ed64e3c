import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { register } from 'prom-client'
import { assertOptions, registerOptions, withFunctions } from '../option-checks.js'
import { recorderOf } from './quota-metrics.js'
import type { QuotaMetricsRegistry } from './store-metrics.js'

/** Options of `fastify.register(quotaMetricsPlugin, options)`. Fastify's own `register` options are also accepted. */
export interface QuotaMetricsOptions {
  /** The registry for the metrics. Default: `prom-client`'s default registry, `register`. */
  readonly registry?: QuotaMetricsRegistry
}

const assertRegistry = withFunctions('a registry of prom-client', 'registerMetric', 'getSingleMetric')

async function quotaMetrics (fastify: FastifyInstance, options: QuotaMetricsOptions): Promise<void> {
  assertOptions<QuotaMetricsOptions>(options, { ...registerOptions, registry: assertRegistry })
  recorderOf(options.registry ?? register)(fastify)
}

/**
 * Counts the quota's decisions of the whole server in a registry of `prom-client`. It adds no route, and no label identifies a
 * caller. `docs/operating.md` lists the metrics.
 *
 * Register it before or after `quotaPlugin`: `await fastify.register(quotaMetricsPlugin, options)`. Servers with the same registry
 * share its metrics. A second registration with the same server and registry has no effect, so no decision is counted twice.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if an option has an invalid value.
 */
export const quotaMetricsPlugin = createPlugin(quotaMetrics, { fastify: '5.x || ^6.0.0-alpha.4', name: 'fastify-llm-quota-metrics' })
