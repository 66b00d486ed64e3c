import { Counter, Gauge, Histogram } from 'prom-client'
import type { QuotaDecision } from '../decision/decision.js'
import type { QuotaStore } from '../store/store.js'
import type { QuotaMetricsRegistry } from './options.js'
import { addStoreGauges } from './store-gauges.js'

const outcomes: readonly QuotaDecision['outcome'][] = ['admitted', 'rejected', 'unauthenticated', 'disabled', 'unavailable']
const decisionsName = 'llm_quota_decisions_total'

/** The metrics in one registry. All servers that use the registry share them. */
export class QuotaMetrics {
  readonly #decisions: Counter<'quota' | 'operation' | 'outcome'>
  readonly #overflows: Counter
  readonly #limit: Gauge<'quota'>
  readonly #durations: Histogram
  readonly #counted = new Set<string>()
  readonly #storesOfServer = new Map<object, Set<QuotaStore>>()

  constructor (registry: QuotaMetricsRegistry) {
    const registers = [registry]
    this.#decisions = new Counter({ name: decisionsName, help: 'Decisions by quota, operation and outcome.', labelNames: ['quota', 'operation', 'outcome'], registers })
    this.#overflows = new Counter({ name: 'llm_quota_overflow_decisions_total', help: 'Decisions that used the shared overflow counter.', registers })
    this.#limit = new Gauge({ name: 'llm_quota_limit', help: 'The effective limit of the latest decision, in requests per minute; 0 if the quota is disabled.', labelNames: ['quota'], registers, aggregator: 'max' })
    this.#durations = new Histogram({
      name: 'llm_quota_store_duration_seconds',
      help: 'How long decisions waited for the store.',
      buckets: [0.000_01, 0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5],
      registers
    })
    addStoreGauges(registry, () => [...new Set([...this.#storesOfServer.values()].flatMap((stores) => [...stores]))])
  }

  /** Whether the metrics are still in the registry, which the host can clear. */
  areIn (registry: QuotaMetricsRegistry): boolean {
    return registry.getSingleMetric(decisionsName) === this.#decisions
  }

  has (server: object): boolean {
    return this.#storesOfServer.has(server)
  }

  addServer (server: object): void {
    this.#storesOfServer.set(server, new Set())
  }

  /** Removes a server and its stores from the gauges. The counters do not change. */
  removeServer (server: object): void {
    this.#storesOfServer.delete(server)
  }

  addStore (server: object, store: QuotaStore): void {
    this.#storesOfServer.get(server)?.add(store)
  }

  count ({ quota, operation: { method, path }, outcome, limit, overflow }: QuotaDecision): void {
    const operation = `${method} ${path}`
    this.#startAtZero(quota, operation)
    this.#decisions.inc({ quota, operation, outcome })
    this.#limit.set({ quota }, limit)
    if (overflow) this.#overflows.inc()
  }

  observe (seconds: number): void {
    this.#durations.observe(seconds)
  }

  // Prometheus can only calculate a rate from an initial value. Without the 0, the first rejection would be missing.
  #startAtZero (quota: string, operation: string): void {
    const key = `${quota} ${operation}`
    if (this.#counted.has(key)) return
    this.#counted.add(key)
    for (const outcome of outcomes) this.#decisions.inc({ quota, operation, outcome }, 0)
  }
}
