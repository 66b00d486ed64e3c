import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { register } from 'prom-client'
import { quotaDecisions, type QuotaDecisionMessage } from '../decision/decision.js'
import { storeDurations as storeAnswers, type StoreDuration } from '../decision/store-durations.js'
import { assertMetricsOptions, type QuotaMetricsOptions, type QuotaMetricsRegistry } from './options.js'
import { QuotaMetrics } from './quota-metrics.js'

const metricsOfRegistry = new WeakMap<QuotaMetricsRegistry, QuotaMetrics>()

async function quotaMetrics (fastify: FastifyInstance, options: QuotaMetricsOptions): Promise<void> {
  assertMetricsOptions(options)
  const metrics = metricsIn(options.registry ?? register)
  const { server } = fastify
  if (metrics.has(server)) return
  metrics.addServer(server)

  const count = (message: unknown): void => {
    const { request, decision } = message as QuotaDecisionMessage
    if (request.server.server !== server) return
    metrics.addStore(server, request.server.quotaStore)
    metrics.count(decision)
  }
  const observe = (message: unknown): void => {
    const duration = message as StoreDuration
    if (duration.request.server.server === server) metrics.observe(duration.seconds)
  }
  subscribe(quotaDecisions.name, count)
  subscribe(storeAnswers.name, observe)
  fastify.addHook('onReady', async function metricsReady () {
    if (fastify.hasDecorator('quotaStore')) metrics.addStore(server, fastify.quotaStore)
  })
  fastify.addHook('onClose', async function metricsClose () {
    unsubscribe(quotaDecisions.name, count)
    unsubscribe(storeAnswers.name, observe)
    metrics.removeServer(server)
  })
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
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { localAuthentication } from 'fastify-llm-quota'
 * import quotaMetricsPlugin from 'fastify-llm-quota/metrics'
 * import { register } from 'prom-client'
 *
 * const app = Fastify()
 * await app.register(quotaPlugin, { authentication: () => localAuthentication('alice') })
 * await app.register(quotaMetricsPlugin)
 * app.post('/api/analyze', async () => 'from your model')
 * app.get('/metrics', async (_request, reply) => reply.type(register.contentType).send(await register.metrics()))
 *
 * await app.inject({ method: 'POST', url: '/api/analyze' })
 * const { body } = await app.inject('/metrics')
 * console.log(body.split('\n').find((line) => line.includes('admitted'))) // llm_quota_decisions_total{quota="default",operation="POST /api/analyze",outcome="admitted"} 1
 * ```
 */
export const quotaMetricsPlugin = createPlugin(quotaMetrics, { fastify: '5.x || ^6.0.0-alpha.4', name: 'fastify-llm-quota-metrics' })
