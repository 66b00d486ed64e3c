import { subscribe, unsubscribe, type Channel } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { Counter, Gauge, Histogram, type Metric } from 'prom-client'
import {
  placeChanges,
  preferenceFailures,
  quotaDecisions,
  quotaSettlements,
  storeDurations,
  waitChanges,
  type PreferenceFailure,
  type QuotaDecisionMessage,
  type QuotaPlaceChange,
  type QuotaSettlement,
  type QuotaWaitChange,
  type StoreDuration
} from '../channels.js'
import type { QuotaDecision, UnavailableReason } from '../permit/decision.js'
import type { QuotaInfo } from '../permit/quota.js'
import { serverPreferences, serverQuotas } from '../permit/server-quotas.js'
import {
  addStoreMetrics,
  labelsOfQuota,
  type LabelOfQuota,
  type QuotaMetricsRegistry
} from './store-metrics.js'

/** The metric by which a recorder is found. */
export const firstMetric = 'llm_quota_decisions_total'

/**
 * What can fail, and whether it is a function in the definition of a quota or in a mark. Such a
 * mistake changes no metric of the limit.
 */
const failures: Readonly<Record<UnavailableReason, { readonly isOfDefinition: boolean }>> = {
  store: { isOfDefinition: false },
  authentication: { isOfDefinition: false },
  mark: { isOfDefinition: true },
  limit: { isOfDefinition: true },
  cost: { isOfDefinition: true },
  'time-zone': { isOfDefinition: true },
  closing: { isOfDefinition: false }
}

/** The label `reason` of each series of an operation: empty unless something failed. */
const reasonsByOutcome: Readonly<Record<QuotaDecision['outcome'], readonly string[]>> = {
  admitted: [''],
  rejected: [''],
  unauthenticated: [''],
  disabled: [''],
  unavailable: Object.keys(failures)
}

/** The upper bounds of `llm_quota_store_duration_seconds`, in seconds. */
const durationBuckets = [0.000_01, 0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5]

/** The upper bounds of `llm_quota_wait_seconds`, in seconds. No wait is longer than the last. */
const waitBuckets = [0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]

const placeUnit = 'concurrent-requests'

/** What listens to a channel. */
type Subscription = readonly [channel: Channel, listener: (message: unknown) => void]

/** The requests of a server that run or wait now, by quota. */
interface ServerRequests {
  readonly concurrent: Map<string, number>
  readonly waiting: Map<string, number>
  /** The unit of each quota that requests have waited for. */
  readonly units: Map<string, string>
}

/** Counts in one registry what the quotas of servers publish. */
export class Recorder {
  readonly decisions: Counter<LabelOfQuota | 'operation' | 'outcome' | 'reason' | 'enforced'>
  readonly #overflows: Counter<LabelOfQuota>
  readonly #limits: Gauge<LabelOfQuota>
  readonly #used: Counter<LabelOfQuota>
  readonly #failedSettlements: Counter<LabelOfQuota>
  readonly #failedPreferences: Counter<'preference'>
  readonly #durations: Histogram
  readonly #waits: Histogram<LabelOfQuota>

  /** The requests of each server until it closes. */
  readonly #servers = new Map<object, ServerRequests>()

  /** What was counted too much, by quota and unit: a counter can never decrease. */
  readonly #excess = new Map<string, number>()

  /** The operations of quotas whose series exist. */
  readonly #started = new Set<string>()

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
    this.#failedPreferences = this.#addFailedPreferences(registry)
    this.#durations = added(
      registry,
      new Histogram({
        name: 'llm_quota_store_duration_seconds',
        help: 'How long decisions waited for the store.',
        buckets: durationBuckets,
        registers: []
      })
    )
    this.#addWaiting(registry)
    this.#waits = added(
      registry,
      new Histogram({
        name: 'llm_quota_wait_seconds',
        help: 'How long requests waited for room, whether they got it or not.',
        labelNames: labelsOfQuota,
        buckets: waitBuckets,
        registers: []
      })
    )
    addStoreMetrics(registry, () => this.#quotas())
  }

  /** Records a server until it closes, if it is not recorded already. */
  record (fastify: FastifyInstance): void {
    const { server } = fastify
    if (this.#servers.has(server)) return
    const requests = { concurrent: new Map(), waiting: new Map(), units: new Map() }
    this.#servers.set(server, requests)
    const subscriptions = this.#subscriptionsOf(server, requests)
    for (const [{ name }, listener] of subscriptions) subscribe(name, listener)
    fastify.addHook('onReady', async () => {
      this.#startCounters(server)
    })
    fastify.addHook('onClose', async () => {
      this.#servers.delete(server)
      for (const [{ name }, listener] of subscriptions) unsubscribe(name, listener)
    })
  }

  #subscriptionsOf (server: object, requests: ServerRequests): readonly Subscription[] {
    return [
      listen<QuotaDecisionMessage>(quotaDecisions, server, (message) => {
        this.#countDecision(message)
      }),
      listen<QuotaSettlement>(quotaSettlements, server, (message) => {
        this.#countSettlement(message)
      }),
      listen<QuotaPlaceChange>(placeChanges, server, (message) => {
        change(requests.concurrent, message)
      }),
      listen<QuotaWaitChange>(waitChanges, server, (message) => {
        this.#countWait(requests, message)
      }),
      listen<PreferenceFailure>(preferenceFailures, server, ({ preference }) => {
        this.#failedPreferences.inc({ preference })
      }),
      listen<StoreDuration>(storeDurations, server, ({ seconds }) => {
        this.#durations.observe(seconds)
      })
    ]
  }

  /** The counters of a quota start at 0, as those of its operations do. */
  #startCounters (server: object): void {
    for (const { name: quota, unit } of serverQuotas(server)) {
      if (unit === placeUnit) continue
      this.#overflows.inc({ quota, unit }, 0)
      if (unit === 'requests') continue
      this.#used.inc({ quota, unit }, 0)
      this.#failedSettlements.inc({ quota, unit }, 0)
    }
  }

  #countDecision ({ decision }: QuotaDecisionMessage): void {
    const { quota, unit, operation, outcome, reason, enforced, limit, overflow } = decision
    const labels = {
      quota: quota ?? '',
      unit,
      operation: operation === null ? '' : `${operation.method} ${operation.path}`,
      enforced: String(enforced)
    }
    this.#startSeries(labels)
    this.decisions.inc({ ...labels, outcome, reason: outcome === 'unavailable' ? reason : '' })
    const isMistake = outcome === 'unavailable' && failures[reason].isOfDefinition
    if (quota === null || isMistake) return
    // Without a caller, the limit can be undetermined.
    const isKnown = limit > 0 || outcome === 'disabled' || outcome === 'rejected'
    if (isKnown) this.#limits.set({ quota, unit }, limit)
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
    for (const [outcome, reasons] of Object.entries(reasonsByOutcome)) {
      for (const reason of reasons) this.decisions.inc({ ...labels, outcome, reason }, 0)
    }
  }

  #countSettlement ({ quota, unit, used, before, failed }: QuotaSettlement): void {
    const key = `${quota} ${unit}`
    // A late report can be less than what was assumed before. The difference is subtracted from
    // what is counted next.
    const due = used - before - (this.#excess.get(key) ?? 0)
    this.#excess.set(key, Math.max(0, -due))
    this.#used.inc({ quota, unit }, Math.max(0, due))
    this.#failedSettlements.inc({ quota, unit }, failed ? 1 : 0)
  }

  #countWait ({ waiting, units }: ServerRequests, message: QuotaWaitChange): void {
    const { quota, unit, seconds } = message
    units.set(quota, unit)
    change(waiting, message)
    if (seconds !== null) this.#waits.observe({ quota, unit }, seconds)
  }

  /** Whether there is a reader is known once the server is ready. */
  #addFailedPreferences (registry: QuotaMetricsRegistry): Counter<'preference'> {
    const servers = this.#servers
    return added(
      registry,
      new Counter({
        name: 'llm_quota_preference_failures_total',
        help: 'Preferences that were unavailable, so that the configured limit was used.',
        labelNames: ['preference'],
        registers: [],
        collect () {
          const preferences = [...servers.keys()].flatMap(serverPreferences)
          for (const preference of preferences) this.inc({ preference }, 0)
        }
      })
    )
  }

  #addWaiting (registry: QuotaMetricsRegistry): void {
    const servers = this.#servers
    registry.registerMetric(
      new Gauge({
        name: 'llm_quota_waiting',
        help: 'Requests that wait for room in this process; a sum over instances is the total.',
        labelNames: labelsOfQuota,
        registers: [],
        collect () {
          this.reset()
          for (const { waiting, units } of servers.values()) {
            for (const [quota, unit] of units) this.inc({ quota, unit }, waiting.get(quota))
          }
        }
      })
    )
  }

  #addConcurrent (registry: QuotaMetricsRegistry): void {
    const servers = this.#servers
    registry.registerMetric(
      new Gauge({
        name: 'llm_quota_concurrent_requests',
        help: 'Concurrent requests in this process; a sum over instances is the total.',
        labelNames: labelsOfQuota,
        registers: [],
        collect () {
          this.reset()
          for (const { concurrent } of servers.values()) {
            for (const [quota, count] of concurrent) this.inc({ quota, unit: placeUnit }, count)
          }
        }
      })
    )
  }

  #quotas (): QuotaInfo[] {
    return [...this.#servers.keys()].flatMap(serverQuotas)
  }
}

/** Listens to the messages of one server on a channel. */
function listen<Message extends { readonly server: object }> (
  channel: Channel,
  server: object,
  receive: (message: Message) => void
): Subscription {
  return [
    channel,
    (published) => {
      const message = published as Message
      if (message.server === server) receive(message)
    }
  ]
}

/** Changes how many requests of a quota run or wait. */
function change (
  requests: Map<string, number>,
  message: QuotaPlaceChange | QuotaWaitChange
): void {
  const { quota, change } = message
  requests.set(quota, (requests.get(quota) ?? 0) + change)
}

/** Registers a metric and returns it. */
function added<Added extends Metric> (registry: QuotaMetricsRegistry, metric: Added): Added {
  registry.registerMetric(metric)
  return metric
}
