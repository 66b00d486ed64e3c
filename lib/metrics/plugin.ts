import { subscribe, unsubscribe, type Channel } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { Counter, Gauge, Histogram, register } from 'prom-client'
import { preferenceFailures, type PreferenceFailure } from '../limit/preferences.js'
import { assertOptions, registerOptions, withFunctions } from '../option-checks.js'
import { quotaCharges, type QuotaCharge } from '../permit/charge.js'
import { storeDurations, type StoreDuration } from '../permit/decide.js'
import {
  quotaDecisions,
  type QuotaDecision,
  type QuotaDecisionMessage
} from '../permit/decision.js'
import type { QuotaInfo } from '../permit/quota.js'
import { addStoreMetrics, ofQuota, type QuotaMetricsRegistry } from './store-metrics.js'

// The reason is a label only where something failed.
const series: readonly { readonly outcome: QuotaDecision['outcome']; readonly reason: string }[] = [
  ...(['admitted', 'rejected', 'unauthenticated', 'disabled'] as const).map((outcome) => ({
    outcome,
    reason: ''
  })),
  ...['store', 'authentication', 'mark', 'cost'].map((reason) => ({
    outcome: 'unavailable' as const,
    reason
  }))
]

/**
 * Options of `fastify.register(quotaMetricsPlugin, options)`. Fastify's own `register` options are
 * also accepted.
 */
export interface QuotaMetricsOptions {
  /** The registry for the metrics. Default: `prom-client`'s default registry, `register`. */
  readonly registry?: QuotaMetricsRegistry
}

// By the first metric of a registry, which the host can clear. All servers that use the registry
// share its metrics.
const recorders = new WeakMap<object, (fastify: FastifyInstance) => void>()
const assertRegistry = withFunctions(
  'a registry of prom-client',
  'registerMetric',
  'getSingleMetric'
)

async function plugin (fastify: FastifyInstance, options: QuotaMetricsOptions): Promise<void> {
  assertOptions<QuotaMetricsOptions>(options, { ...registerOptions, registry: assertRegistry })
  const { registry = register } = options
  const record =
    recorders.get(Object(registry.getSingleMetric('llm_quota_decisions_total'))) ??
    addMetrics(registry)
  record(fastify)
}

/**
 * Adds the metrics to a registry. Returns a function that records a server until it closes, if it
 * is not recorded already.
 */
function addMetrics (registry: QuotaMetricsRegistry) {
  // The lists of quotas of each server's scopes, and its requests in flight by quota, until it
  // closes.
  const servers = new Map<
    object,
    { readonly quotas: Set<readonly QuotaInfo[]>; readonly inFlight: Map<string, number> }
  >()
  const registers = [registry]
  const counter = <Label extends string>(
    name: string,
    help: string,
    ...labelNames: readonly Label[]
  ) => new Counter({ name, help, labelNames, registers })
  const decisions = counter(
    'llm_quota_decisions_total',
    'Decisions by quota, operation and outcome; not enforced in shadow mode.',
    ...ofQuota,
    'operation',
    'outcome',
    'reason',
    'enforced'
  )
  const overflows = counter(
    'llm_quota_overflow_decisions_total',
    'Decisions that used the shared overflow counter.',
    ...ofQuota
  )
  const ofLimit = 'The effective limit of the latest decision; 0 if the quota is disabled.'
  const limits = new Gauge({
    name: 'llm_quota_limit',
    help: ofLimit,
    labelNames: ofQuota,
    registers,
    aggregator: 'max'
  })
  const ofProcess = 'Requests in flight in this process; a sum over instances is the total.'
  registry.registerMetric(
    new Gauge({
      name: 'llm_quota_requests_in_flight',
      help: ofProcess,
      labelNames: ofQuota,
      registers: [],
      collect: collectInFlight
    })
  )
  const charges = counter(
    'llm_quota_charged_total',
    'What was added after the admission, in the unit of the quota.',
    ...ofQuota
  )
  const givenBack = counter(
    'llm_quota_given_back_total',
    'What the admission had counted too much, in the unit of the quota.',
    ...ofQuota
  )
  const failedCharges = counter(
    'llm_quota_failed_charges_total',
    'Charges that may not be counted because the store failed.',
    ...ofQuota
  )
  const failedPreferences = counter(
    'llm_quota_preference_failures_total',
    'Preferences that were unavailable, so that the configured limit was used.',
    'preference'
  )
  const buckets = [0.000_01, 0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5]
  const ofStore = 'How long decisions waited for the store.'
  const durations = new Histogram({
    name: 'llm_quota_store_duration_seconds',
    help: ofStore,
    buckets,
    registers
  })
  addStoreMetrics(registry, () => [...servers.values()].flatMap(({ quotas }) => [...quotas].flat()))
  const started = new Set<string>()

  function countDecision ({
    quota,
    unit,
    operation: { method, path },
    outcome,
    reason,
    enforced,
    limit,
    overflow
  }: QuotaDecision): void {
    const labels = {
      quota: quota ?? '',
      unit,
      operation: `${method} ${path}`,
      enforced: String(enforced)
    }
    const key = Object.values(labels).join(' ')
    // Prometheus can only calculate a rate from an initial value. Without the 0, the first
    // rejection would be missing.
    if (!started.has(key)) for (const each of series) decisions.inc({ ...labels, ...each }, 0)
    started.add(key)
    decisions.inc({ ...labels, outcome, reason: outcome === 'unavailable' ? reason : '' }, 1)
    if (quota === null || reason === 'cost') return
    limits.set({ quota, unit }, limit)
    overflows.inc({ quota, unit }, overflow ? 1 : 0)
  }

  function collectInFlight (this: Gauge<(typeof ofQuota)[number]>): void {
    this.reset()
    for (const { inFlight } of servers.values()) {
      for (const [quota, count] of inFlight) this.inc({ quota, unit: 'requests-in-flight' }, count)
    }
  }

  const record = (fastify: FastifyInstance): void => {
    const { server } = fastify
    if (servers.has(server)) return
    const [quotas, inFlight] = [new Set<readonly QuotaInfo[]>(), new Map<string, number>()]
    servers.set(server, { quotas, inFlight })

    function on<Message extends { readonly request: FastifyRequest }> (
      { name }: Channel,
      count: (message: Message) => void
    ): void {
      const listener = (message: unknown): void => {
        const ofRequest = message as Message
        if (ofRequest.request.server.server === server) count(ofRequest)
      }
      subscribe(name, listener)
      fastify.addHook('onClose', async () => {
        unsubscribe(name, listener)
      })
    }

    const changeInFlight = (quota: string, change: number): void => {
      inFlight.set(quota, (inFlight.get(quota) ?? 0) + change)
    }
    on<QuotaDecisionMessage>(quotaDecisions, ({ request, decision }) => {
      // A request for a permit can be one of a scope without the plugin.
      if (request.server.hasDecorator('quotas')) quotas.add(request.server.quotas)
      countDecision(decision)
      if (decision.unit === 'requests-in-flight' && decision.outcome === 'admitted') {
        changeInFlight(String(decision.quota), 1)
      }
    })
    on<QuotaCharge>(quotaCharges, ({ quota, unit, amount, failed }) => {
      if (unit === 'requests-in-flight') return changeInFlight(quota, amount)
      charges.inc({ quota, unit }, failed ? 0 : Math.max(0, amount))
      givenBack.inc({ quota, unit }, failed ? 0 : Math.max(0, -amount))
      failedCharges.inc({ quota, unit }, failed ? 1 : 0)
    })
    on<PreferenceFailure>(preferenceFailures, ({ preference }) => {
      failedPreferences.inc({ preference })
    })
    on<StoreDuration>(storeDurations, ({ seconds }) => {
      durations.observe(seconds)
    })
    fastify.addHook('onReady', async () => {
      if (fastify.hasDecorator('quotas')) quotas.add(fastify.quotas)
    })
    fastify.addHook('onClose', async () => {
      servers.delete(server)
    })
  }

  recorders.set(decisions, record)
  return record
}

/**
 * Counts the quota's decisions of the whole server in a registry of `prom-client`. It adds no
 * route, and no label identifies a caller. `docs/operating.md` lists the metrics.
 *
 * Register it before or after `quotaPlugin`: `await fastify.register(quotaMetricsPlugin, options)`.
 * Servers with the same registry share its metrics. A second registration with the same server and
 * registry has no effect, so no decision is counted twice.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if an option has an invalid value.
 */
export const quotaMetricsPlugin = createPlugin(plugin, {
  fastify: '5.x || ^6.0.0-alpha.4',
  name: 'fastify-llm-quota-metrics'
})
