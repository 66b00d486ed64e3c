// What `require` returns.
import Fastify = require('fastify')
import quota = require('fastify-llm-quota')
import earlier = require('fastify-llm-quota/earlier')
import metrics = require('fastify-llm-quota/metrics')
import redis = require('fastify-llm-quota/redis')

const app: Fastify.FastifyInstance = Fastify()
const options: quota.QuotaOptions = { perMinute: 5, store: new quota.MemoryQuotaStore() }
app.register(quota.default, options)
app.register(quota.quotaPlugin, options)
app.register(earlier.default)
app.register(metrics.default)
console.log(redis.RedisQuotaStore)
