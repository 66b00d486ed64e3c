import { Counter, Gauge, Histogram } from 'prom-client'
import type { QuotaDecision } from '../decision/decision.js'
import type { StoreDuration } from '../decision/ask.js'
import type { PreferenceFailure } from '../limit/preferences.js'
import type { QuotaStore } from '../store/store.js'
import type { QuotaCharge } from '../usage/charges.js'
import type { QuotaPlaceChange } from '../usage/usage.js'
import { addStoreMetrics, type QuotaMetricsRegistry } from './store-metrics.js'

const outcomes: readonly QuotaDecision['outcome'][] = ['admitted', 'rejected', 'unauthenticated', 'disabled', 'unavailable']
const decisionsName = 'llm_quota_decisions_total'

/** What the metrics know of one server. */
interface ServerState {
  /** The stores in use, with the names of their quotas. */
  readonly stores: Map<QuotaStore, string>
  /** The number of requests in flight, by quota. */
  readonly inFlight: Map<string, number>
}

/** The metrics in one registry. All servers that use the registry share them. */
export class QuotaMetrics {
  readonly #servers = new Map<object, ServerState>()
  readonly #started = new Set<string>()
  readonly #decisions: Counter<'quota' | 'operation' | 'outcome' | 'enforced'>
  readonly #overflows: Counter<'quota'>
  readonly #limits: Gauge<'quota'>
  readonly #tokens: Counter<'quota'>
  readonly #failedCharges: Counter<'quota'>
  readonly #preferenceFailures: Counter<'preference'>
  readonly #durations: Histogram

  constructor (registry: QuotaMetricsRegistry) {
    const registers = [registry]
    const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]) => new Counter({ name, help, labelNames, registers })
    this.#decisions = counter(decisionsName, 'Decisions by quota, operation and outcome; not enforced in shadow mode.', 'quota', 'operation', 'outcome', 'enforced')
    this.#overflows = counter('llm_quota_overflow_decisions_total', 'Decisions that used the shared overflow counter.', 'quota')
    this.#limits = new Gauge({ name: 'llm_quota_limit', help: 'The effective limit of the latest decision; 0 if the quota is disabled.', labelNames: ['quota'], registers, aggregator: 'max' })
    this.#tokens = counter('llm_quota_tokens_charged_total', 'Model tokens that were charged.', 'quota')
    this.#failedCharges = counter('llm_quota_failed_charges_total', 'Charges that were not counted because the store failed.', 'quota')
    this.#preferenceFailures = counter('llm_quota_preference_failures_total', 'Preferences that were unavailable, so that the configured limit was used.', 'preference')
    this.#durations = new Histogram({
      name: 'llm_quota_store_duration_seconds',
      help: 'How long decisions waited for the store.',
      buckets: [0.000_01, 0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5],
      registers
    })
    const servers = this.#servers
    const inFlight = new Gauge({
      name: 'llm_quota_requests_in_flight',
      help: 'Requests in flight in this process; a sum over instances is the total.',
      labelNames: ['quota'],
      registers,
      collect () {
        inFlight.reset()
        for (const server of servers.values()) for (const [quota, count] of server.inFlight) inFlight.inc({ quota }, count)
      }
    })
    addStoreMetrics(registry, () => [...servers.values()].flatMap(({ stores }) => [...stores]))
  }

  /** Whether the metrics are still in the registry, which the host can clear. */
  areIn (registry: QuotaMetricsRegistry): boolean {
    return registry.getSingleMetric(decisionsName) === this.#decisions
  }

  has (server: object): boolean {
    return this.#servers.has(server)
  }

  addServer (server: object): void {
    this.#servers.set(server, { stores: new Map(), inFlight: new Map() })
  }

  /** Removes a server, its stores and its requests in flight from the gauges. The counters do not change. */
  removeServer (server: object): void {
    this.#servers.delete(server)
  }

  addStore (server: object, quota: string, store: QuotaStore): void {
    this.#servers.get(server)?.stores.set(store, quota)
  }

  addDecision ({ quota, operation: { method, path }, outcome, enforced, limit, overflow }: QuotaDecision): void {
    const count = (outcome: QuotaDecision['outcome'], decisions: number): void => {
      this.#decisions.inc({ quota, operation: `${method} ${path}`, outcome, enforced: String(enforced) }, decisions)
    }
    const series = `${quota} ${method} ${path} ${String(enforced)}`
    if (!this.#started.has(series)) {
      // Prometheus can only calculate a rate from an initial value. Without the 0, the first rejection would be missing.
      this.#started.add(series)
      for (const each of outcomes) count(each, 0)
    }
    count(outcome, 1)
    this.#limits.set({ quota }, limit)
    this.#overflows.inc({ quota }, overflow ? 1 : 0)
  }

  addCharge ({ quota, tokens, failed }: QuotaCharge): void {
    this.#tokens.inc({ quota }, failed ? 0 : tokens)
    this.#failedCharges.inc({ quota }, failed ? 1 : 0)
  }

  addPlaceChange (server: object, { quota, change }: QuotaPlaceChange): void {
    const inFlight = this.#servers.get(server)?.inFlight
    inFlight?.set(quota, (inFlight.get(quota) ?? 0) + change)
  }

  addPreferenceFailure ({ preference }: PreferenceFailure): void {
    this.#preferenceFailures.inc({ preference })
  }

  addStoreDuration ({ seconds }: StoreDuration): void {
    this.#durations.observe(seconds)
  }
}
