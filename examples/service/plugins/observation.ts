import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { quotaDecisions, type QuotaDecisionMessage } from 'fastify-llm-quota'
import { QuotaWindows } from '../quota-windows.js'

/** What this instance has seen the quota do, for those who watch. */
interface Observation {
  readonly windows: QuotaWindows
  /** Calls back soon after something has changed, however much; gives what ends it. */
  onChange (listener: () => void): () => void
  /** Says that something other than a decision has changed. */
  changed (): void
  /** The limit in force for a request; 0 where the quota is off. */
  limit (request: FastifyRequest): Promise<number>
}

declare module 'fastify' {
  interface FastifyInstance {
    observation: Observation
  }
}

/** The preference that holds the limit. */
export const perMinute = 'rate-limit.per-minute'

const soon = 50

/** @param options.clock The clock of the counters, in monotonic milliseconds. */
export const observation = createPlugin(async function observation (app: FastifyInstance, { clock = () => performance.now() }: { clock?: () => number }) {
  const windows = new QuotaWindows(clock)
  const listeners = new Set<() => void>()
  let due: NodeJS.Timeout | undefined

  // A flood of requests makes no flood of events.
  const changed = (): void => {
    due ??= setTimeout(() => {
      due = undefined
      for (const listener of listeners) listener()
    }, soon)
  }
  const record = (message: unknown): void => {
    const { request, decision } = message as QuotaDecisionMessage
    if (request.server.server !== app.server) return
    windows.record(decision)
    changed()
  }
  subscribe(quotaDecisions.name, record)
  app.addHook('onClose', async () => {
    unsubscribe(quotaDecisions.name, record)
    clearTimeout(due)
  })

  app.decorate('observation', {
    windows,
    changed,
    onChange (listener) {
      listeners.add(listener)
      return () => { listeners.delete(listener) }
    },
    async limit (request) {
      const preference: unknown = await Promise.resolve(app.preferences?.get(perMinute, request)).catch(() => null)
      const limit = Number(preference ?? app.quotaConfig.SERVICE_RATE_LIMIT_PER_MINUTE)
      return limit < 0 ? 1 : limit
    }
  })
}, { name: 'observation' })
