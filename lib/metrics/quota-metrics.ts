import { Counter, Gauge, Histogram } from 'prom-client'
import type { PreferenceFailure } from '../limit/preferences.js'
import type { QuotaCharge } from '../permit/charge.js'
import type { StoreDuration } from '../permit/decide.js'
import type { QuotaDecision } from '../permit/decision.js'
import type { QuotaPlaceChange } from '../permit/place.js'
import type { QuotaInfo } from '../permit/quota-list.js'
import { addStoreMetrics, type QuotaMetricsRegistry } from './store-metrics.js'

// The reason is a label only where something failed.
const series: readonly [outcome: QuotaDecision['outcome'], reason: string][] = [
  ['admitted', ''], ['rejected', ''], ['unauthenticated', ''], ['disabled', ''],
  ['unavailable', 'store'], ['unavailable', 'authentication'], ['unavailable', 'mark'], ['unavailable', 'cost']
]
const decisionsName = 'llm_quota_decisions_total'

/** What the metrics know of one server. */
interface ServerState {
  /** The lists of quotas of its scopes. */
  readonly quotas: Set<readonly QuotaInfo[]>
  /** The number of requests in flight, by quota. */
  readonly inFlight: Map<string, number>
}

/** The metrics in one registry. All servers that use the registry share them. */
export class QuotaMetrics {
  readonly #servers = new Map<object, ServerState>()
  readonly #started = new Set<string>()
  readonly #decisions: Counter<'quota' | 'unit' | 'operation' | 'outcome' | 'reason' | 'enforced'>
  readonly #overflows: Counter<'quota' | 'unit'>
  readonly #limits: Gauge<'quota' | 'unit'>
  readonly #charges: Counter<'quota' | 'unit'>
  readonly #givenBack: Counter<'quota' | 'unit'>
  readonly #failedCharges: Counter<'quota' | 'unit'>
  readonly #preferenceFailures: Counter<'preference'>
  readonly #durations: Histogram

  constructor (registry: QuotaMetricsRegistry) {
    const registers = [registry]
    const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]) => new Counter({ name, help, labelNames, registers })
    this.#decisions = counter(decisionsName, 'Decisions by quota, operation and outcome; not enforced in shadow mode.', 'quota', 'unit', 'operation', 'outcome', 'reason', 'enforced')
    this.#overflows = counter('llm_quota_overflow_decisions_total', 'Decisions that used the shared overflow counter.', 'quota', 'unit')
    this.#limits = new Gauge({ name: 'llm_quota_limit', help: 'The effective limit of the latest decision; 0 if the quota is disabled.', labelNames: ['quota', 'unit'], registers, aggregator: 'max' })
    this.#charges = counter('llm_quota_charged_total', 'What was added after the admission, in the unit of the quota.', 'quota', 'unit')
    this.#givenBack = counter('llm_quota_given_back_total', 'What the admission had counted too much, in the unit of the quota.', 'quota', 'unit')
    this.#failedCharges = counter('llm_quota_failed_charges_total', 'Charges that may not be counted because the store failed.', 'quota', 'unit')
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
      labelNames: ['quota', 'unit'],
      registers,
      collect () {
        inFlight.reset()
        for (const server of servers.values()) for (const [quota, count] of server.inFlight) inFlight.inc({ quota, unit: 'requests-in-flight' }, count)
      }
    })
    addStoreMetrics(registry, () => [...servers.values()].flatMap(({ quotas }) => [...quotas].flat()))
  }

  /** Whether the metrics are still in the registry, which the host can clear. */
  areIn (registry: QuotaMetricsRegistry): boolean {
    return registry.getSingleMetric(decisionsName) === this.#decisions
  }

  has (server: object): boolean {
    return this.#servers.has(server)
  }

  addServer (server: object): void {
    this.#servers.set(server, { quotas: new Set(), inFlight: new Map() })
  }

  /** Removes a server, its quotas and its requests in flight from the gauges. The counters do not change. */
  removeServer (server: object): void {
    this.#servers.delete(server)
  }

  addQuotas (server: object, quotas: readonly QuotaInfo[]): void {
    this.#servers.get(server)?.quotas.add(quotas)
  }

  addDecision ({ quota, unit, operation: { method, path }, outcome, reason, enforced, limit, overflow }: QuotaDecision): void {
    const labels = { quota: quota ?? '', unit, operation: `${method} ${path}`, enforced: String(enforced) }
    const started = Object.values(labels).join(' ')
    if (!this.#started.has(started)) {
      // Prometheus can only calculate a rate from an initial value. Without the 0, the first rejection would be missing.
      this.#started.add(started)
      for (const [outcome, reason] of series) this.#decisions.inc({ ...labels, outcome, reason }, 0)
    }
    this.#decisions.inc({ ...labels, outcome, reason: outcome === 'unavailable' ? reason : '' }, 1)
    if (quota === null || reason === 'cost') return
    this.#limits.set({ quota, unit }, limit)
    this.#overflows.inc({ quota, unit }, overflow ? 1 : 0)
  }

  addCharge ({ quota, unit, amount, failed }: QuotaCharge): void {
    this.#charges.inc({ quota, unit }, failed ? 0 : Math.max(0, amount))
    this.#givenBack.inc({ quota, unit }, failed ? 0 : Math.max(0, -amount))
    this.#failedCharges.inc({ quota, unit }, failed ? 1 : 0)
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
