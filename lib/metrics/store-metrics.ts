import { Counter, Gauge, type OpenMetricsContentType, type PrometheusContentType, type Registry } from 'prom-client'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import { TimeLimit } from '../store/time-limit.js'
import type { QuotaStore, QuotaStoreState } from '../store/store.js'

/** A registry of `prom-client`, for either content type. */
export type QuotaMetricsRegistry = Registry<PrometheusContentType> | Registry<OpenMetricsContentType>

// How long `inspect` may take, in milliseconds. The collection of all metrics waits for it.
const inspectionLimit = new TimeLimit(500)

/** A store in use, and the name of its quota. */
type NamedStore = readonly [store: QuotaStore, quota: string]

const maximumOnly = 'The instances that share a store report the same number: use the maximum, not the sum.'

/**
 * Adds the metrics that are read from the stores when they are collected.
 *
 * @param stores Returns the stores in use.
 */
export function addStoreMetrics (registry: QuotaMetricsRegistry, stores: () => readonly NamedStore[]): void {
  addInsuredMetrics(registry, () => stores().map(([store]) => store).filter((store) => store instanceof InsuredQuotaStore))
  let inspection: Promise<Map<string, QuotaStoreState>> | undefined
  // Gauges that are collected together share one inspection.
  const statesNow = (): Promise<Map<string, QuotaStoreState>> => {
    inspection ??= inspectAll(stores()).finally(() => { inspection = undefined })
    return inspection
  }
  const stateGauge = (name: string, help: string, part: keyof QuotaStoreState) => new Gauge({
    name,
    help: `${help} ${maximumOnly}`,
    labelNames: ['quota'],
    registers: [registry],
    aggregator: 'max',
    async collect () {
      const states = await statesNow()
      this.reset()
      for (const [quota, state] of states) this.set({ quota }, state[part])
    }
  })
  stateGauge('llm_quota_tracked_callers', 'Callers that have a counter of their own; no value if unknown.', 'trackedCallers')
  stateGauge('llm_quota_sweeps', 'Sweeps since the store was created or last cleared; no value if unknown.', 'sweeps')

  registry.registerMetric(new Gauge({
    name: 'llm_quota_max_tracked_callers',
    help: `The caller cap of the store. ${maximumOnly}`,
    labelNames: ['quota'],
    registers: [],
    aggregator: 'max',
    collect () {
      this.reset()
      for (const [store, quota] of stores()) {
        const { maxTrackedCallers }: { maxTrackedCallers?: unknown } = Object(countingStore(store))
        if (typeof maxTrackedCallers === 'number') this.set({ quota }, maxTrackedCallers)
      }
    }
  }))
}

/** Adds the metrics of insured stores. They have no series if no store is insured. */
function addInsuredMetrics (registry: QuotaMetricsRegistry, stores: () => readonly InsuredQuotaStore[]): void {
  registry.registerMetric(new Gauge({
    name: 'llm_quota_insured_primary',
    help: 'The share of the shards of an insured store for which the primary answers, from 0 to 1. Without shards, 1 or 0.',
    registers: [],
    aggregator: 'min',
    collect () {
      this.remove()
      const shares = stores().map(({ shards: { primary, fallback } }) => fallback.length === 0 ? 1 : primary.length / (primary.length + fallback.length))
      if (shares.length > 0) this.set(Math.min(...shares))
    }
  }))
  const counted = new WeakMap<InsuredQuotaStore['answers'], InsuredQuotaStore['answers']>()
  registry.registerMetric(new Counter({
    name: 'llm_quota_insured_answers_total',
    help: 'Calls of an insured store, by the store that answered: primary or fallback.',
    labelNames: ['store'],
    registers: [],
    collect () {
      // The quotas of a store share its answers.
      for (const { answers } of stores()) {
        const { primary = 0, fallback = 0 } = counted.get(answers) ?? {}
        this.inc({ store: 'primary' }, answers.primary - primary)
        this.inc({ store: 'fallback' }, answers.fallback - fallback)
        counted.set(answers, { ...answers })
      }
    }
  }))
}

/** The store whose callers count toward the cap. While the primary of an insured store is down, the number of its callers is unknown. */
function countingStore (store: QuotaStore): QuotaStore {
  return store instanceof InsuredQuotaStore ? store.primary : store
}

/** Inspects the stores and returns the greatest numbers of each quota. A quota with a store that fails or takes too long is left out. */
async function inspectAll (stores: readonly NamedStore[]): Promise<Map<string, QuotaStoreState>> {
  const states = new Map<string, QuotaStoreState>()
  const unknown = new Set<string>()
  await Promise.all(stores.map(async ([store, quota]) => {
    try {
      const { trackedCallers, sweeps } = await inspectionLimit.within(inspect(countingStore(store)))
      const { trackedCallers: most = 0, sweeps: latest = 0 } = states.get(quota) ?? {}
      states.set(quota, { trackedCallers: Math.max(most, trackedCallers), sweeps: Math.max(latest, sweeps) })
    } catch {
      unknown.add(quota)
    }
  }))
  for (const quota of unknown) states.delete(quota)
  return states
}

async function inspect (store: QuotaStore): Promise<QuotaStoreState> {
  const state = await store.inspect?.()
  if (state === undefined || !Number.isSafeInteger(state.trackedCallers) || !Number.isSafeInteger(state.sweeps)) throw new TypeError('the state of the store is unknown')
  return state
}
