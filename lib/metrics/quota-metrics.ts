import type { Channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import { Counter, Gauge, Histogram } from 'prom-client'
import { preferenceFailures, type PreferenceFailure } from '../limit/preferences.js'
import { quotaCharges, type QuotaCharge } from '../permit/charge.js'
import { storeDurations, type StoreDuration } from '../permit/decide.js'
import { quotaDecisions, type QuotaDecision, type QuotaDecisionMessage } from '../permit/decision.js'
import type { QuotaInfo } from '../permit/quota-list.js'
import { addGauge, addStoreMetrics, ofQuota, type QuotaMetricsRegistry } from './store-metrics.js'

// The reason is a label only where something failed.
const series: readonly [outcome: QuotaDecision['outcome'], reason: string][] = [
  ['admitted', ''], ['rejected', ''], ['unauthenticated', ''], ['disabled', ''],
  ['unavailable', 'store'], ['unavailable', 'authentication'], ['unavailable', 'mark'], ['unavailable', 'cost']
]

/** What the metrics know of one server. */
export class ServerState {
  /** The lists of quotas of its scopes. */
  readonly quotas = new Set<readonly QuotaInfo[]>()
  /** The number of requests in flight, by quota. */
  readonly inFlight = new Map<string, number>()
}

/** Records the messages of one channel. */
export interface Recorder {
  readonly channel: Channel
  record (message: { readonly request: FastifyRequest }, server: ServerState): void
}

/** The metrics in one registry. All servers that use the registry share them. */
export class QuotaMetrics {
  /** Gauges have no values of servers that are not among these. */
  readonly servers = new Map<object, ServerState>()
  readonly recorders: readonly Recorder[]
  /** Whether the metrics are still in the registry, which the host can clear. */
  readonly areRegistered: () => boolean

  constructor (registry: QuotaMetricsRegistry) {
    const { servers } = this
    const registers = [registry]
    const counter = <Label extends string>(name: string, help: string, ...labelNames: readonly Label[]) =>
      new Counter({ name, help, labelNames, registers })

    const decisions = counter('llm_quota_decisions_total', 'Decisions by quota, operation and outcome; not enforced in shadow mode.',
      ...ofQuota, 'operation', 'outcome', 'reason', 'enforced')
    const overflows = counter('llm_quota_overflow_decisions_total', 'Decisions that used the shared overflow counter.', ...ofQuota)
    const limits = new Gauge({
      name: 'llm_quota_limit',
      help: 'The effective limit of the latest decision; 0 if the quota is disabled.',
      labelNames: ofQuota,
      registers,
      aggregator: 'max'
    })
    const charges = counter('llm_quota_charged_total', 'What was added after the admission, in the unit of the quota.', ...ofQuota)
    const givenBack = counter('llm_quota_given_back_total', 'What the admission had counted too much, in the unit of the quota.',
      ...ofQuota)
    const failedCharges = counter('llm_quota_failed_charges_total', 'Charges that may not be counted because the store failed.', ...ofQuota)
    const failedPreferences = counter('llm_quota_preference_failures_total',
      'Preferences that were unavailable, so that the configured limit was used.', 'preference')
    const durations = new Histogram({
      name: 'llm_quota_store_duration_seconds',
      help: 'How long decisions waited for the store.',
      buckets: [0.000_01, 0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5],
      registers
    })
    const inFlight = 'Requests in flight in this process; a sum over instances is the total.'
    addGauge(registry, 'llm_quota_requests_in_flight', inFlight, 'sum', () => [...servers.values()].flatMap(({ inFlight }) =>
      [...inFlight].map(([name, value]) => ({ quota: { name, unit: 'requests-in-flight' }, value }))))
    addStoreMetrics(registry, () => [...servers.values()].flatMap(({ quotas }) => [...quotas].flat()))

    const started = new Set<string>()
    this.areRegistered = () => registry.getSingleMetric('llm_quota_decisions_total') === decisions
    this.recorders = [
      recorder<QuotaDecisionMessage>(quotaDecisions, ({ request, decision }, server) => {
        const { quota, unit, operation: { method, path }, outcome, reason, enforced, limit, overflow } = decision
        server.quotas.add(request.server.quotas)
        const labels = { quota: quota ?? '', unit, operation: `${method} ${path}`, enforced: String(enforced) }
        const key = Object.values(labels).join(' ')
        // Prometheus can only calculate a rate from an initial value. Without the 0, the first rejection would be missing.
        if (!started.has(key)) for (const [outcome, reason] of series) decisions.inc({ ...labels, outcome, reason }, 0)
        started.add(key)
        decisions.inc({ ...labels, outcome, reason: outcome === 'unavailable' ? reason : '' }, 1)
        if (quota === null || reason === 'cost') return
        limits.set({ quota, unit }, limit)
        overflows.inc({ quota, unit }, overflow ? 1 : 0)
        if (unit === 'requests-in-flight' && outcome === 'admitted') changeInFlight(server, quota, 1)
      }),
      recorder<QuotaCharge>(quotaCharges, ({ quota, unit, amount, failed }, server) => {
        if (unit === 'requests-in-flight') return changeInFlight(server, quota, amount)
        charges.inc({ quota, unit }, failed ? 0 : Math.max(0, amount))
        givenBack.inc({ quota, unit }, failed ? 0 : Math.max(0, -amount))
        failedCharges.inc({ quota, unit }, failed ? 1 : 0)
      }),
      recorder<PreferenceFailure>(preferenceFailures, ({ preference }) => { failedPreferences.inc({ preference }) }),
      recorder<StoreDuration>(storeDurations, ({ seconds }) => { durations.observe(seconds) })
    ]
  }
}

function changeInFlight ({ inFlight }: ServerState, quota: string, change: number): void {
  inFlight.set(quota, (inFlight.get(quota) ?? 0) + change)
}

function recorder<Message> (channel: Channel, record: (message: Message, server: ServerState) => void): Recorder {
  return { channel, record: (message, server) => { record(message as Message, server) } }
}
