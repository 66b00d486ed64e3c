// Everything that a host of the plugin names, imported by name.
import Fastify, { type FastifyInstance } from 'fastify'
import {
  InsuredQuotaStore,
  MemoryQuotaStore,
  quotaPlugin,
  ShardedQuotaStore,
  type Operation,
  type QuotaDecision,
  type QuotaOptions,
  type QuotaStore
} from 'fastify-llm-quota'
import { earlierQuotaPlugin } from 'fastify-llm-quota/earlier'
import { quotaMetricsPlugin } from 'fastify-llm-quota/metrics'
import { PostgresQuotaStore } from 'fastify-llm-quota/postgres'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { quotaStoreContract, VirtualClock } from 'fastify-llm-quota/testing'
import { Cluster, Redis } from 'ioredis'
import { type OpenMetricsContentType, Registry } from 'prom-client'

declare module 'fastify' {
  interface FastifyInstance {
    preferences: { theme: string }
  }
}

const operations = [{ method: 'POST', path: '/api/chat' }] satisfies Operation[]
const app: FastifyInstance = Fastify()
app.register(quotaPlugin)
app.register(quotaPlugin, {
  perMinute: 5,
  store: new MemoryQuotaStore({ clock: new VirtualClock().now }),
  mode: 'shadow'
})
app.register(quotaPlugin, {
  prefix: '/context',
  operations,
  authentication: async () => null,
  preferences: new Map<string, unknown>(),
  refusalBody: (decision) => ({ contentType: 'text/plain', body: String(decision.limit) }),
  rateLimitHeaders: 'draft-10',
  quotas: {
    chat: { operations },
    plans: { perWeek: { tokens: async (caller) => (caller.kind === 'token' ? 500 : 100) } },
    hours: { limit: ({ authenticated }) => (authenticated ? 5 : 1), window: 5 * 3_600_000 },
    streams: { concurrent: 3 }
  }
} satisfies QuotaOptions)
app.register(earlierQuotaPlugin, { perMinute: 5 })
app.register(quotaMetricsPlugin)
app.register(quotaMetricsPlugin, { registry: new Registry() })
app.register(quotaMetricsPlugin, { registry: new Registry<OpenMetricsContentType>() })

const store: QuotaStore = app.quotaStore
const limit: number = app.quotaConfig.SERVICE_RATE_LIMIT_PER_MINUTE
const theme: string = app.preferences.theme
app.get('/', async (request) => {
  const all: readonly QuotaDecision[] = request.quota.decisions
  const [decision] = all
  if (decision?.outcome !== 'admitted') return all.length
  const counted: { callerKey: string; count: number } = decision
  return counted
})
app.post(
  '/marked',
  { config: { quota: ['default', 'chat'] } },
  async (request) => await app.quotaStanding(request, 'chat')
)
app.post(
  '/chosen',
  { config: { quota: (request) => (request.url === '/' ? 'chat' : null) } },
  async (request) => {
    await request.quota.charge({ tokens: 7 })
  }
)

const query = async (text: string, values: unknown[]) => ({ rows: [{ text, values }] })
const insured: InsuredQuotaStore = new InsuredQuotaStore({
  primary: store,
  fallback: new MemoryQuotaStore()
})
const stores: QuotaStore[] = [
  new RedisQuotaStore({ client: new Redis() }),
  new RedisQuotaStore({ client: new Cluster([]), keyPrefix: 'quota:{a}:' }),
  new ShardedQuotaStore([insured]),
  new PostgresQuotaStore({ pool: { query } }),
  insured
]
for (const { name, run } of quotaStoreContract(() => insured))
  await Promise.resolve(run()).then(() => name satisfies string)
console.log(limit, theme, stores)
