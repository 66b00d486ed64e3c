import { subscribe, unsubscribe, type Channel } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Counter, Gauge, Histogram, type Metric } from 'prom-client'
import {
  preferenceFailures,
  quotaDecisions,
  quotaPlaces,
  quotaSettlements,
  storeDurations,
  type PreferenceFailure,
  type QuotaDecisionMessage,
  type QuotaPlaceChange,
  type QuotaSettlement,
  type StoreDuration
} from '../channels.js'
import { hasFunction } from '../option-checks.js'
import type { QuotaDecision } from '../permit/decision.js'
import type { QuotaInfo } from '../permit/quota.js'
import {
  addStoreMetrics,
  labelsOfQuota,
  type LabelOfQuota,
  type QuotaMetricsRegistry
} from './store-metrics.js'

/** The metric by which a recorder is found. */
export const firstMetric = 'llm_quota_decisions_total'

/** The series of an operation. The reason is a label only where something failed. */
const series: readonly { readonly outcome: QuotaDecision['outcome']; readonly reason: string }[] = [
  { outcome: 'admitted', reason: '' },
  { outcome: 'rejected', reason: '' },
  { outcome: 'unauthenticated', reason: '' },
  { outcome: 'disabled', reason: '' },
  { outcome: 'unavailable', reason: 'store' },
  { outcome: 'unavailable', reason: 'authentication' },
  { outcome: 'unavailable', reason: 'mark' },
  { outcome: 'unavailable', reason: 'cost' },
  { outcome: 'unavailable', reason: 'time-zone' }
]

/** The failures that say nothing about a limit. */
const failuresOfHost: readonly QuotaDecision['reason'][] = ['mark', 'cost', 'time-zone']

/** The upper bounds of `llm_quota_store_duration_seconds`, in seconds. */
const durationBuckets = [0.000_01, 0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5]

const placeUnit = 'concurrent-requests'

/** A server until it closes. */
interface RecordedServer {
  /** The quotas of each of its scopes that has any. */
  readonly quotas: Set<readonly QuotaInfo[]>
  /** The concurrent requests, by quota. */
  readonly concurrent: Map<string, number>
}

/** A message about a request, or about a permit without one. */
interface Message {
  readonly request: FastifyRequest | null
}

type Subscription = readonly [channel: Channel, listener: (message: unknown) => void]

/** Counts in one registry what the quotas of servers publish. */
export class Recorder {
  readonly decisions: Counter<LabelOfQuota | 'operation' | 'outcome' | 'reason' | 'enforced'>
  readonly #overflows: Counter<LabelOfQuota>
  readonly #limits: Gauge<LabelOfQuota>
  readonly #used: Counter<LabelOfQuota>
  readonly #failedSettlements: Counter<LabelOfQuota>
  readonly #failedPreferences: Counter<'preference'>
  readonly #durations: Histogram

  readonly #servers = new Map<object, RecordedServer>()

  /** The concurrent requests of permits without a Fastify request, by quota. */
  readonly #concurrentWithoutRequest = new Map<string, number>()

  /** What was counted too much, by quota and unit: a counter can never decrease. */
  readonly #excess = new Map<string, number>()

  /** The operations of quotas whose series exist. */
  readonly #started = new Set<string>()

  readonly #subscriptions: readonly Subscription[] = [
    [quotaDecisions, (message) => this.#countDecision(message as QuotaDecisionMessage)],
    [quotaSettlements, (message) => this.#countSettlement(message as QuotaSettlement)],
    [quotaPlaces, (message) => this.#countPlace(message as QuotaPlaceChange)],
    [preferenceFailures, (message) => this.#countPreference(message as PreferenceFailure)],
    [storeDurations, (message) => this.#countDuration(message as StoreDuration)]
  ]

  constructor (registry: QuotaMetricsRegistry) {
    this.decisions = added(
      registry,
      new Counter({
        name: firstMetric,
        help: 'Decisions by quota, operation and outcome; not enforced in shadow mode.',
        labelNames: [...labelsOfQuota, 'operation', 'outcome', 'reason', 'enforced'],
        registers: []
      })
    )
    this.#overflows = added(
      registry,
      new Counter({
        name: 'llm_quota_overflow_decisions_total',
        help: 'Decisions that used the shared overflow counter.',
        labelNames: labelsOfQuota,
        registers: []
      })
    )
    this.#limits = added(
      registry,
      new Gauge({
        name: 'llm_quota_limit',
        help: 'The effective limit of the latest decision; 0 if the quota is disabled.',
        labelNames: labelsOfQuota,
        registers: [],
        aggregator: 'max'
      })
    )
    this.#addConcurrent(registry)
    this.#used = added(
      registry,
      new Counter({
        name: 'llm_quota_used_total',
        help: 'What requests have used, in the unit of the quota, counted when they are settled.',
        labelNames: labelsOfQuota,
        registers: []
      })
    )
    this.#failedSettlements = added(
      registry,
      new Counter({
        name: 'llm_quota_failed_settlements_total',
        help: 'Settlements that the counters may lack because the store failed.',
        labelNames: labelsOfQuota,
        registers: []
      })
    )
    this.#failedPreferences = added(
      registry,
      new Counter({
        name: 'llm_quota_preference_failures_total',
        help: 'Preferences that were unavailable, so that the configured limit was used.',
        labelNames: ['preference'],
        registers: []
      })
    )
    this.#durations = added(
      registry,
      new Histogram({
        name: 'llm_quota_store_duration_seconds',
        help: 'How long decisions waited for the store.',
        buckets: durationBuckets,
        registers: []
      })
    )
    addStoreMetrics(registry, () => this.#quotas())
  }

  /** Records a server until it closes, if it is not recorded already. */
  record (fastify: FastifyInstance): void {
    const { server } = fastify
    if (this.#servers.has(server)) return
    if (this.#servers.size === 0) {
      for (const [{ name }, listener] of this.#subscriptions) subscribe(name, listener)
    }
    const recorded: RecordedServer = { quotas: new Set(), concurrent: new Map() }
    this.#servers.set(server, recorded)
    fastify.addHook('onReady', async () => {
      if (fastify.hasDecorator('quotas')) this.#addQuotas(recorded, fastify.quotas)
    })
    fastify.addHook('onClose', async () => {
      this.#forget(server)
    })
  }

  #forget (server: object): void {
    this.#servers.delete(server)
    if (this.#servers.size > 0) return
    this.#concurrentWithoutRequest.clear()
    for (const [{ name }, listener] of this.#subscriptions) unsubscribe(name, listener)
  }

  /** Adds the quotas of a scope. What they have used starts at 0, as the decisions do. */
  #addQuotas ({ quotas }: RecordedServer, added: readonly QuotaInfo[]): void {
    if (quotas.has(added)) return
    quotas.add(added)
    for (const { name, unit } of added) {
      if (unit !== 'requests' && unit !== placeUnit) this.#used.inc({ quota: name, unit }, 0)
    }
  }

  /** Whether a message is about a recorded server. One without a Fastify request can be. */
  #isRecorded (message: Message): boolean {
    const instance = instanceOf(message)
    return instance === undefined || this.#servers.has(instance.server)
  }

  #countDecision (message: QuotaDecisionMessage): void {
    if (!this.#isRecorded(message)) return
    const instance = instanceOf(message)
    // The request can be one of a scope without the plugin.
    const recorded = instance === undefined ? undefined : this.#servers.get(instance.server)
    if (instance?.hasDecorator('quotas') === true && recorded !== undefined) {
      this.#addQuotas(recorded, instance.quotas)
    }
    const { quota, unit, operation, outcome, reason, enforced, limit, overflow } = message.decision
    const labels = {
      quota: quota ?? '',
      unit,
      operation: operation === null ? '' : `${operation.method} ${operation.path}`,
      enforced: String(enforced)
    }
    this.#startSeries(labels)
    this.decisions.inc({ ...labels, outcome, reason: outcome === 'unavailable' ? reason : '' })
    if (quota === null || failuresOfHost.includes(reason)) return
    this.#limits.set({ quota, unit }, limit)
    this.#overflows.inc({ quota, unit }, overflow ? 1 : 0)
  }

  /**
   * Prometheus can only calculate a rate from an initial value. Without the 0, the first rejection
   * would be missing.
   */
  #startSeries (labels: Readonly<Record<LabelOfQuota | 'operation' | 'enforced', string>>): void {
    const key = JSON.stringify(labels)
    if (this.#started.has(key)) return
    this.#started.add(key)
    for (const each of series) this.decisions.inc({ ...labels, ...each }, 0)
  }

  #countSettlement (message: QuotaSettlement): void {
    if (!this.#isRecorded(message)) return
    const { quota, unit, used, before, failed } = message
    const key = `${quota} ${unit}`
    // A late report can be less than what was assumed before. The difference is subtracted from
    // what is counted next.
    const due = used - before - (this.#excess.get(key) ?? 0)
    this.#excess.set(key, Math.max(0, -due))
    this.#used.inc({ quota, unit }, Math.max(0, due))
    this.#failedSettlements.inc({ quota, unit }, failed ? 1 : 0)
  }

  #countPlace (message: QuotaPlaceChange): void {
    if (!this.#isRecorded(message)) return
    const { quota, change } = message
    const instance = instanceOf(message)
    const concurrent =
      instance === undefined
        ? this.#concurrentWithoutRequest
        : this.#servers.get(instance.server)?.concurrent
    concurrent?.set(quota, (concurrent.get(quota) ?? 0) + change)
  }

  #countPreference (message: PreferenceFailure): void {
    if (this.#isRecorded(message)) this.#failedPreferences.inc({ preference: message.preference })
  }

  #countDuration (message: StoreDuration): void {
    if (this.#isRecorded(message)) this.#durations.observe(message.seconds)
  }

  #addConcurrent (registry: QuotaMetricsRegistry): void {
    const concurrent = (): Map<string, number>[] => [
      this.#concurrentWithoutRequest,
      ...[...this.#servers.values()].map((server) => server.concurrent)
    ]
    registry.registerMetric(
      new Gauge({
        name: 'llm_quota_concurrent_requests',
        help: 'Concurrent requests in this process; a sum over instances is the total.',
        labelNames: labelsOfQuota,
        registers: [],
        collect () {
          this.reset()
          for (const counts of concurrent()) {
            for (const [quota, count] of counts) this.inc({ quota, unit: placeUnit }, count)
          }
        }
      })
    )
  }

  #quotas (): QuotaInfo[] {
    const lists = [...this.#servers.values()].flatMap(({ quotas }) => [...quotas])
    return lists.flat()
  }
}

/**
 * Returns the Fastify instance of a message's request; undefined if there is no request, or one
 * that is not Fastify's, which a host can give `quotaAcquire`.
 */
function instanceOf ({ request }: Message): FastifyInstance | undefined {
  const { server }: { readonly server?: FastifyInstance } = request ?? {}
  return hasFunction(server, 'hasDecorator') ? server : undefined
}

/** Registers a metric and returns it. */
function added<Added extends Metric> (registry: QuotaMetricsRegistry, metric: Added): Added {
  registry.registerMetric(metric)
  return metric
}
