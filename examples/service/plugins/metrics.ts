import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import quotaMetricsPlugin from 'fastify-llm-quota/metrics'
import { Registry } from 'prom-client'

/** Serves the metrics of the quota on `GET /metrics`. */
export const metrics = createPlugin(async function metrics (app: FastifyInstance) {
  if (!app.config.METRICS) return
  const registry = new Registry()
  await app.register(quotaMetricsPlugin, { registry })
  app.get('/metrics', { schema: { hide: true } }, async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()))
}, { name: 'metrics', dependencies: ['configuration'] })
