// The default exports, in an ES module; test/package compiles it as CommonJS, too.
import Fastify, { type FastifyInstance } from 'fastify'
import quotaPlugin, { MemoryQuotaStore } from 'fastify-llm-quota'
import earlierQuotaPlugin from 'fastify-llm-quota/earlier'
import quotaMetricsPlugin from 'fastify-llm-quota/metrics'

const app: FastifyInstance = Fastify()
app.register(quotaPlugin, { store: new MemoryQuotaStore() })
app.register(earlierQuotaPlugin, { perMinute: 5 })
app.register(quotaMetricsPlugin)
