import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { quotaDecisions, type QuotaDecisionMessage } from 'fastify-llm-quota'
import { QuotaWindows } from '../quota-windows.js'

/** The state of the quota as seen by this instance, for event streams. */
interface Observation {
  readonly windows: QuotaWindows
  /** Calls back once, shortly after one or more changes. Returns a function that ends this. */
  onChange (listener: () => void): () => void
  /** Records a change that is not a decision. */
  changed (): void
  /** Returns the effective limit; 0 if the quota is disabled. Concurrent calls share one read of the preference. */
  limit (request: FastifyRequest): Promise<number>
  /** Returns the number of tracked callers; null if the store does not answer. Concurrent calls share one call of the store. */
  trackedCallers (): Promise<number | null>
}

declare module 'fastify' {
  interface FastifyInstance {
    observation: Observation
  }
}

/** The preference that holds the limit. */
export const perMinute = 'rate-limit.per-minute'

const soon = 50

/** @param options.clock The clock of the counters; returns monotonic milliseconds. */
export const observation = createPlugin(async function observation (app: FastifyInstance, { clock = () => performance.now() }: { clock?: () => number }) {
  const windows = new QuotaWindows(clock)
  const listeners = new Set<() => void>()
  let due: NodeJS.Timeout | undefined

  const limit = shortly(async (request: FastifyRequest) => {
    const { SERVICE_RATE_LIMIT_PER_MINUTE: configured } = app.quotaConfig
    const preference: unknown = await Promise.resolve(app.preferences.get(perMinute, request)).catch(() => null)
    const value = preference == null ? configured : Number(preference)
    return Number.isSafeInteger(value) ? value < 0 ? 1 : value : configured
  })
  const trackedCallers = shortly(async () => await Promise.resolve(app.quotaStore.inspect()).then((state) => state.trackedCallers, () => null))

  // Combines changes, so that many requests do not cause many events.
  const changed = (): void => {
    due ??= setTimeout(() => {
      due = undefined
      limit.again()
      trackedCallers.again()
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
    limit,
    trackedCallers
  })
}, { name: 'observation' })

// Concurrent calls share one result. `again` makes the next call read a new one.
function shortly<Arguments extends unknown[], T> (ask: (...given: Arguments) => Promise<T>): { (...given: Arguments): Promise<T>, again (): void } {
  let answer: Promise<T> | undefined
  let askedAt = -Infinity
  const shared = async (...given: Arguments): Promise<T> => {
    if (answer === undefined || performance.now() - askedAt > soon) {
      askedAt = performance.now()
      answer = ask(...given)
    }
    return await answer
  }
  return Object.assign(shared, { again () { answer = undefined } })
}
