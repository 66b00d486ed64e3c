import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { InsuredQuotaStore, protectedOperations, quotaDecisions, type QuotaDecision, type QuotaDecisionMessage, type QuotaStore } from 'fastify-llm-quota'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { TimedStore } from '../timed-store.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The same store, its answers timed where there are metrics. */
    timeStore (store: QuotaStore): QuotaStore
  }
}

const outcomes: QuotaDecision['outcome'][] = ['admitted', 'rejected', 'unauthenticated', 'disabled', 'unavailable']

/** Counts what the quota decides, and shows it on `GET /metrics`. No label ever names a caller. */
export const metrics = createPlugin(async function metrics (app: FastifyInstance) {
  if (!app.config.METRICS) {
    app.decorate('timeStore', (store: QuotaStore) => store)
    return
  }
  const registry = new Registry()
  const registers = [registry]
  const decisions = new Counter({ name: 'llm_quota_decisions_total', help: 'Decisions of the quota, by outcome and operation.', labelNames: ['outcome', 'operation'], registers })
  const overflows = new Counter({ name: 'llm_quota_overflow_decisions_total', help: 'Decisions by the shared overflow counter.', registers })
  const duration = new Histogram({
    name: 'llm_quota_store_duration_seconds',
    help: 'How long the store took to answer.',
    buckets: [0.000_01, 0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5],
    registers
  })
  const sweeps = new Gauge({ name: 'llm_quota_sweeps', help: 'Cleanup sweeps since the store was made or last cleared.', registers })
  new Gauge({
    name: 'llm_quota_tracked_callers',
    help: 'Callers that have a counter of their own.',
    registers,
    async collect () {
      const state = await app.quotaStore.inspect()
      this.set(state.trackedCallers)
      sweeps.set(state.sweeps)
    }
  }).set(0)
  new Gauge({
    name: 'llm_quota_insured_primary',
    help: '1 while the primary store answers, 0 while its fallback does.',
    registers,
    collect () { this.set(app.quotaStore instanceof InsuredQuotaStore && app.quotaStore.state === 'fallback' ? 0 : 1) }
  }).set(1)
  // A rate starts from 0, so that the first refusal is seen as an increase.
  for (const outcome of outcomes) for (const { method, path } of protectedOperations) decisions.inc({ outcome, operation: `${method} ${path}` }, 0)

  const count = (message: unknown): void => {
    const { request, decision } = message as QuotaDecisionMessage
    if (request.server.server !== app.server) return
    decisions.inc({ outcome: decision.outcome, operation: `${decision.operation.method} ${decision.operation.path}` })
    if (decision.overflow) overflows.inc()
  }
  subscribe(quotaDecisions.name, count)
  app.addHook('onClose', async () => { unsubscribe(quotaDecisions.name, count) })
  app.decorate('timeStore', (store: QuotaStore) => new TimedStore(store, (seconds) => { duration.observe(seconds) }))
  app.get('/metrics', { schema: { hide: true } }, async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()))
}, { name: 'metrics', dependencies: ['configuration'] })
