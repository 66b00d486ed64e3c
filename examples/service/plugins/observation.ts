import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { quotaDecisions, type QuotaDecisionMessage } from 'fastify-llm-quota'
import { QuotaWindows } from '../quota-windows.js'

/** The state of the quotas as seen by this instance, for event streams. */
interface Observation {
  readonly windows: QuotaWindows
  /**
   * Calls back shortly after one or more changes that concern a caller, or any caller if none is given. Returns a function that ends
   * this.
   */
  onChange (listener: () => void, callerKey?: string): () => void
  /** Records a change that is not a decision. It concerns all callers if none is given. */
  changed (callerKey?: string): void
  /** Returns the number of tracked callers; null if the store does not answer. */
  trackedCallers (): Promise<number | null>
}

declare module 'fastify' {
  interface FastifyInstance {
    observation: Observation
  }
}

const everyone = ''
const soon = 50

/** @param options.clock The clock of the counters; returns monotonic milliseconds. */
export const observation = createPlugin(async function observation (app: FastifyInstance, { clock = () => performance.now() }: { clock?: () => number }) {
  const windows = new QuotaWindows(clock)
  const listeners = new Map<() => void, string | undefined>()
  const concerned = new Set<string>()
  let due: NodeJS.Timeout | undefined

  // Combines changes, so that many requests do not cause many events.
  const changed = (callerKey = everyone): void => {
    concerned.add(callerKey)
    due ??= setTimeout(() => {
      due = undefined
      for (const [listener, caller] of listeners) if (caller === undefined || concerned.has(caller) || concerned.has(everyone)) listener()
      concerned.clear()
    }, soon)
  }
  const record = (message: unknown): void => {
    const { request, decision } = message as QuotaDecisionMessage
    if (request.server.server !== app.server) return
    windows.record(decision)
    // Any caller can share the overflow counter.
    if (decision.callerKey !== null) changed(decision.overflow ? everyone : decision.callerKey)
  }
  subscribe(quotaDecisions.name, record)
  app.addHook('onClose', async () => {
    unsubscribe(quotaDecisions.name, record)
    clearTimeout(due)
  })

  app.decorate('observation', {
    windows,
    changed,
    onChange (listener, callerKey) {
      listeners.set(listener, callerKey)
      return () => { listeners.delete(listener) }
    },
    async trackedCallers () {
      try {
        return (await app.quotaStore.inspect?.())?.trackedCallers ?? null
      } catch {
        return null
      }
    }
  })
}, { name: 'observation' })
