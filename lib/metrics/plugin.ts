import { subscribe, unsubscribe, type Channel } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { register } from 'prom-client'
import { preferenceFailures, type PreferenceFailure } from '../limit/preferences.js'
import { assertOptions, registerOptions, withFunctions } from '../option-checks.js'
import { quotaCharges, type QuotaCharge } from '../permit/charge.js'
import { storeDurations, type StoreDuration } from '../permit/decide.js'
import { quotaDecisions, type QuotaDecisionMessage } from '../permit/decision.js'
import { quotaPlaces, type QuotaPlaceChange } from '../permit/place.js'
import { QuotaMetrics } from './quota-metrics.js'
import type { QuotaMetricsRegistry } from './store-metrics.js'

/** Options of `fastify.register(quotaMetricsPlugin, options)`. Fastify's own `register` options are also accepted. */
export interface QuotaMetricsOptions {
  /** The registry for the metrics. Default: `prom-client`'s default registry, `register`. */
  readonly registry?: QuotaMetricsRegistry
}

const metricsOfRegistry = new WeakMap<QuotaMetricsRegistry, QuotaMetrics>()

async function quotaMetrics (fastify: FastifyInstance, options: QuotaMetricsOptions): Promise<void> {
  assertOptions<QuotaMetricsOptions>(options, { ...registerOptions, registry: withFunctions('a registry of prom-client', 'registerMetric', 'getSingleMetric') })
  const metrics = metricsIn(options.registry ?? register)
  const { server } = fastify
  if (metrics.has(server)) return
  metrics.addServer(server)

  function receive<Message extends { readonly request: FastifyRequest }> ({ name }: Channel, record: (message: Message) => void): void {
    const listener = (message: unknown): void => {
      if ((message as Message).request.server.server === server) record(message as Message)
    }
    subscribe(name, listener)
    fastify.addHook('onClose', async () => { unsubscribe(name, listener) })
  }
  receive<QuotaDecisionMessage>(quotaDecisions, ({ request, decision }) => {
    metrics.addDecision(decision)
    metrics.addQuotas(server, request.server.quotas)
  })
  receive<QuotaCharge>(quotaCharges, (charge) => { metrics.addCharge(charge) })
  receive<QuotaPlaceChange>(quotaPlaces, (change) => { metrics.addPlaceChange(server, change) })
  receive<PreferenceFailure>(preferenceFailures, (failure) => { metrics.addPreferenceFailure(failure) })
  receive<StoreDuration>(storeDurations, (duration) => { metrics.addStoreDuration(duration) })
  fastify.addHook('onReady', async () => {
    if (fastify.hasDecorator('quotas')) metrics.addQuotas(server, fastify.quotas)
  })
  fastify.addHook('onClose', async () => { metrics.removeServer(server) })
}

function metricsIn (registry: QuotaMetricsRegistry): QuotaMetrics {
  const known = metricsOfRegistry.get(registry)
  if (known?.areIn(registry) === true) return known
  const metrics = new QuotaMetrics(registry)
  metricsOfRegistry.set(registry, metrics)
  return metrics
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
