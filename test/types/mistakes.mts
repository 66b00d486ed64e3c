// Programs that must not compile. Each comment says which mistake the compiler must report in the
// next line; if it reports none there, this file fails to compile.
import Fastify, { type FastifyInstance } from 'fastify'
import {
  callerKey,
  quotaPlugin,
  type InsuredQuotaStore,
  type QuotaDecision,
  type QuotaStore
} from 'fastify-llm-quota'
import { quotaMetricsPlugin } from 'fastify-llm-quota/metrics'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'

const app: FastifyInstance = Fastify()
// @ts-expect-error no such option
app.register(quotaPlugin, { perMinutes: 5 })
// @ts-expect-error a limit by caller is that of a quota with a name
app.register(quotaPlugin, { perMinute: () => 5 })
// @ts-expect-error a permit has no request
app.register(quotaPlugin, { preferences: { get: (_key, request) => request.headers.plan } })
// @ts-expect-error null is no authentication
export const nobody = callerKey(null)
// @ts-expect-error no such mode
app.register(quotaPlugin, { mode: 'audit' })
// @ts-expect-error no acquire
app.register(quotaPlugin, { store: {} })
// @ts-expect-error no path
app.register(quotaPlugin, { operations: [{ method: 'GET' }] })
// @ts-expect-error not a registry
app.register(quotaMetricsPlugin, { registry: {} })
// @ts-expect-error not a mark
app.post('/wrong', { config: { quota: 7 } }, async () => '')
// @ts-expect-error no client
app.register(quotaPlugin, { store: new RedisQuotaStore({}) })
// @ts-expect-error the functions of a store that only `acquire` is required of are optional
export const inspect = (store: QuotaStore): unknown => store.inspect('default')
// @ts-expect-error an insured store has only the functions that both of its stores have
export const clear = (store: InsuredQuotaStore): unknown => store.clearCounters()
// @ts-expect-error not every decision has counted
export const count = (decision: QuotaDecision): number => decision.count
