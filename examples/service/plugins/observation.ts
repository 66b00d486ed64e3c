import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { quotaDecisions, type QuotaDecisionMessage } from 'fastify-llm-quota'
import { QuotaWindows } from '../quota-windows.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The windows of the default quota, as seen by this instance. */
    windows: QuotaWindows
  }
}

/** @param options.clock The clock of the counters; returns monotonic milliseconds. */
export const observation = createPlugin(async function observation (app: FastifyInstance, { clock = () => performance.now() }: { clock?: () => number }) {
  app.decorate('windows', new QuotaWindows(clock))
  const record = (message: unknown): void => {
    const { request, decision } = message as QuotaDecisionMessage
    if (request.server.server === app.server) app.windows.record(decision)
  }
  subscribe(quotaDecisions.name, record)
  app.addHook('onClose', async () => { unsubscribe(quotaDecisions.name, record) })
}, { name: 'observation' })
