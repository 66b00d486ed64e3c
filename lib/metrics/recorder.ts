import { subscribe, unsubscribe, type Channel } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { Counter, Histogram, type Registry } from 'prom-client'
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
import type { QuotaInfo } from '../permit/quota.js'
import { serverPreferences, serverQuotas } from '../permit/server-quotas.js'
import { DecisionMetrics } from './decision-metrics.js'
import { RequestMetrics } from './request-metrics.js'
import { addStoreMetrics } from './store-metrics.js'
import { UsageMetrics } from './usage-metrics.js'

/** The upper bounds of `llm_quota_store_duration_seconds`, in seconds. */
const durationBuckets = [0.000_01, 0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5]

/** What listens to a channel. */
type Subscription = readonly [channel: Channel, listener: (message: unknown) => void]

/** Records in one registry what the quotas of servers publish. */
export class Recorder {
  /** The servers that have not closed. */
  readonly #servers = new Set<object>()
  readonly #decisions: DecisionMetrics
  readonly #usage: UsageMetrics
  readonly #requests: RequestMetrics
  readonly #failedPreferences: Counter<'preference'>
  readonly #durations: Histogram

  /** @param registry Gets all metrics. */
  constructor (registry: Registry) {
    const servers = this.#servers
    this.#decisions = new DecisionMetrics(registry)
    this.#usage = new UsageMetrics(registry)
    this.#requests = new RequestMetrics(registry)
    this.#failedPreferences = new Counter({
      name: 'llm_quota_preference_failures_total',
      help: 'Preferences that were unavailable, so that the configured limit was used.',
      labelNames: ['preference'],
      registers: [registry],
      // Whether there is a reader is known once a server is ready.
      collect () {
        const preferences = [...servers].flatMap(serverPreferences)
        for (const preference of preferences) this.inc({ preference }, 0)
      }
    })
    this.#durations = new Histogram({
      name: 'llm_quota_store_duration_seconds',
      help: 'How long decisions waited for the store.',
      buckets: durationBuckets,
      registers: [registry]
    })
    addStoreMetrics(registry, () => [...servers].flatMap(serverQuotas))
  }

  /** Records a server until it closes, if it is not recorded already. */
  record (fastify: FastifyInstance): void {
    const { server } = fastify
    if (this.#servers.has(server)) return
    this.#servers.add(server)
    const subscriptions = this.#subscriptionsOf(server)
    for (const [{ name }, listener] of subscriptions) subscribe(name, listener)
    fastify.addHook('onReady', async () => {
      for (const quota of serverQuotas(server)) this.#start(quota)
    })
    fastify.addHook('onClose', async () => {
      this.#servers.delete(server)
      this.#requests.remove(server)
      for (const [{ name }, listener] of subscriptions) unsubscribe(name, listener)
    })
  }

  #subscriptionsOf (server: object): readonly Subscription[] {
    const requests = this.#requests.add(server)
    return [
      subscription<QuotaDecisionMessage>(quotaDecisions, server, ({ decision }) => {
        this.#decisions.count(decision)
      }),
      subscription<QuotaSettlement>(quotaSettlements, server, (settlement) => {
        this.#usage.count(settlement)
      }),
      subscription<QuotaPlaceChange>(placeChanges, server, (message) => {
        this.#requests.countPlace(requests, message)
      }),
      subscription<QuotaWaitChange>(waitChanges, server, (message) => {
        this.#requests.countWait(requests, message)
      }),
      subscription<PreferenceFailure>(preferenceFailures, server, ({ preference }) => {
        this.#failedPreferences.inc({ preference })
      }),
      subscription<StoreDuration>(storeDurations, server, ({ seconds }) => {
        this.#durations.observe(seconds)
      })
    ]
  }

  /** The counters of a quota start at 0, as those of its operations do. */
  #start (quota: QuotaInfo): void {
    this.#decisions.start(quota)
    this.#usage.start(quota)
  }
}

/** Returns the subscription to the messages of one server on a channel. */
function subscription<Message extends { readonly server: object }> (
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
