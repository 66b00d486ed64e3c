import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { register } from 'prom-client'
import { assertOptions, registerOptions, withFunctions } from '../option-checks.js'
import { QuotaMetrics, ServerState } from './quota-metrics.js'
import type { QuotaMetricsRegistry } from './store-metrics.js'

/** Options of `fastify.register(quotaMetricsPlugin, options)`. Fastify's own `register` options are also accepted. */
export interface QuotaMetricsOptions {
  /** The registry for the metrics. Default: `prom-client`'s default registry, `register`. */
  readonly registry?: QuotaMetricsRegistry
}

const metricsOfRegistry = new WeakMap<QuotaMetricsRegistry, QuotaMetrics>()

async function quotaMetrics (fastify: FastifyInstance, options: QuotaMetricsOptions): Promise<void> {
  const registryCheck = withFunctions('a registry of prom-client', 'registerMetric', 'getSingleMetric')
  assertOptions<QuotaMetricsOptions>(options, { ...registerOptions, registry: registryCheck })
  const { registry = register } = options
  const known = metricsOfRegistry.get(registry)
  const metrics = known?.areRegistered() === true ? known : new QuotaMetrics(registry)
  metricsOfRegistry.set(registry, metrics)
  const { server } = fastify
  if (metrics.servers.has(server)) return
  const state = new ServerState()
  metrics.servers.set(server, state)

  for (const { channel: { name }, record } of metrics.recorders) {
    const listener = (message: unknown): void => {
      const ofRequest = message as Parameters<typeof record>[0]
      if (ofRequest.request.server.server === server) record(ofRequest, state)
    }
    subscribe(name, listener)
    fastify.addHook('onClose', async () => { unsubscribe(name, listener) })
  }
  fastify.addHook('onReady', async () => {
    if (fastify.hasDecorator('quotas')) state.quotas.add(fastify.quotas)
  })
  fastify.addHook('onClose', async () => { metrics.servers.delete(server) })
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
