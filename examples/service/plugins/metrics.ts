import quotaMetricsPlugin from 'fastify-llm-quota/metrics'
import createPlugin from 'fastify-plugin'
import { Registry } from 'prom-client'

/** Serves the metrics of the quota on `GET /metrics`. */
export default createPlugin(
  async function metrics (app) {
    if (!app.config.METRICS) return
    const registry = new Registry()
    await app.register(quotaMetricsPlugin, { registry })
    app.get('/metrics', { schema: { hide: true } }, async (_, reply) =>
      reply.type(registry.contentType).send(await registry.metrics())
    )
  },
  { name: 'metrics', dependencies: ['environment'] }
)
