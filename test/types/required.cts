// What `require` returns: the plugin itself, with the other exports as its properties.
import Fastify = require('fastify')
import quotaPlugin = require('fastify-llm-quota')
import earlierQuotaPlugin = require('fastify-llm-quota/earlier')
import quotaMetricsPlugin = require('fastify-llm-quota/metrics')
import redis = require('fastify-llm-quota/redis')

const app: Fastify.FastifyInstance = Fastify()
const store: quotaPlugin.QuotaStore = new quotaPlugin.MemoryQuotaStore()
const options: quotaPlugin.QuotaOptions = { perMinute: 5, store }
app.register(quotaPlugin)
app.register(quotaPlugin, options)
app.register(quotaPlugin.default, options)
app.register(quotaPlugin.quotaPlugin, options)
// @ts-expect-error no such option
app.register(quotaPlugin, { perMinutes: 5 })
app.register(earlierQuotaPlugin, { perMinute: 5 })
app.register(earlierQuotaPlugin.earlierQuotaPlugin)
app.register(quotaMetricsPlugin)
app.register(quotaMetricsPlugin.default, {} satisfies quotaMetricsPlugin.QuotaMetricsOptions)
console.log(redis.RedisQuotaStore)
