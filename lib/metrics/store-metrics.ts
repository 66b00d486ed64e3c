import { Counter, Gauge, type OpenMetricsContentType, type PrometheusContentType, type Registry } from 'prom-client'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaInfo } from '../permit/quota-list.js'
import type { QuotaStore, QuotaStoreState } from '../store/store.js'
import { TimeLimit } from '../time-limit.js'

/** A registry of `prom-client`, for either content type. */
export type QuotaMetricsRegistry = Registry<PrometheusContentType> | Registry<OpenMetricsContentType>

// How long `inspect` may take, in milliseconds. The collection of all metrics waits for it.
const inspectionLimit = new TimeLimit(500)

const maximumOnly = 'The instances that share a store report the same number: use the maximum, not the sum.'

/**
 * Adds the metrics that are read from the stores when they are collected.
 *
 * @param quotas Returns the quotas of all servers.
 */
export function addStoreMetrics (registry: QuotaMetricsRegistry, quotas: () => readonly QuotaInfo[]): void {
  addInsuredMetrics(registry, () => [...new Set(quotas().map(({ store }) => store))].filter((store) => store instanceof InsuredQuotaStore))
  let inspection: Promise<readonly Inspected[]> | undefined
  // Gauges that are collected together share one inspection.
  const statesNow = (): Promise<readonly Inspected[]> => {
    inspection ??= inspectAll(quotas().filter(({ unit }) => unit !== 'requests-in-flight')).finally(() => { inspection = undefined })
    return inspection
  }
  const stateGauge = (name: string, help: string, part: keyof QuotaStoreState) => new Gauge({
    name,
    help: `${help} ${maximumOnly}`,
    labelNames: ['quota', 'unit'],
    registers: [registry],
    aggregator: 'max',
    async collect () {
      const inspected = await statesNow()
      this.reset()
      for (const { quota: { name, unit }, state } of inspected) this.set({ quota: name, unit }, state[part])
    }
  })
  stateGauge('llm_quota_tracked_callers', 'Callers that have a counter of their own; no value if unknown.', 'trackedCallers')
  stateGauge('llm_quota_sweeps', 'Sweeps since the store was created or last cleared; no value if unknown.', 'sweeps')

  registry.registerMetric(new Gauge({
    name: 'llm_quota_max_tracked_callers',
    help: `The caller cap of the store. ${maximumOnly}`,
    labelNames: ['quota', 'unit'],
    registers: [],
    aggregator: 'max',
    collect () {
      this.reset()
      for (const { name: quota, unit, store } of quotas()) {
        const { maxTrackedCallers }: { maxTrackedCallers?: unknown } = Object(countingStore(store))
        if (typeof maxTrackedCallers === 'number' && unit !== 'requests-in-flight') this.set({ quota, unit }, maxTrackedCallers)
      }
    }
  }))
}

/** Adds the metrics of insured stores. They have no series if no store is insured. */
function addInsuredMetrics (registry: QuotaMetricsRegistry, stores: () => readonly InsuredQuotaStore[]): void {
  registry.registerMetric(new Gauge({
    name: 'llm_quota_insured_primary',
    help: 'The share of the shards of an insured store for which the primary decides, from 0 to 1. Without shards, 1 or 0.',
    registers: [],
    aggregator: 'min',
    collect () {
      this.remove()
      const shares = stores().map(({ shards: { primary, fallback } }) => fallback.length === 0 ? 1 : primary.length / (primary.length + fallback.length))
      if (shares.length > 0) this.set(Math.min(...shares))
    }
  }))
  const counted = new WeakMap<InsuredQuotaStore['decisions'], InsuredQuotaStore['decisions']>()
  registry.registerMetric(new Counter({
    name: 'llm_quota_insured_decisions_total',
    help: 'Calls of an insured store, by the store that decided: primary or fallback.',
    labelNames: ['store'],
    registers: [],
    collect () {
      for (const { decisions } of stores()) {
        const { primary = 0, fallback = 0 } = counted.get(decisions) ?? {}
        this.inc({ store: 'primary' }, decisions.primary - primary)
        this.inc({ store: 'fallback' }, decisions.fallback - fallback)
        counted.set(decisions, { ...decisions })
      }
    }
  }))
}

/** The store whose callers count toward the cap. While the primary of an insured store is down, the number of its callers is unknown. */
function countingStore (store: QuotaStore): QuotaStore {
  return store instanceof InsuredQuotaStore ? store.primary : store
}

interface Inspected { readonly quota: QuotaInfo, readonly state: QuotaStoreState }

/** Inspects the counters of quotas. Of quotas with the same name, the greatest numbers count. One whose store fails or takes too long is left out. */
async function inspectAll (quotas: readonly QuotaInfo[]): Promise<readonly Inspected[]> {
  const found = new Map<string, Inspected>()
  const unknown = new Set<string>()
  await Promise.all(quotas.map(async (quota) => {
    const { name, counters, store } = quota
    try {
      const { trackedCallers, sweeps } = await inspectionLimit.within(inspect(countingStore(store), counters))
      const { trackedCallers: most = 0, sweeps: latest = 0 } = found.get(name)?.state ?? {}
      found.set(name, { quota, state: { trackedCallers: Math.max(most, trackedCallers), sweeps: Math.max(latest, sweeps) } })
    } catch {
      unknown.add(name)
    }
  }))
  for (const name of unknown) found.delete(name)
  return [...found.values()]
}

async function inspect (store: QuotaStore, counters: string): Promise<QuotaStoreState> {
  const state = await store.inspect?.(counters)
  if (state === undefined || !Number.isSafeInteger(state.trackedCallers) || !Number.isSafeInteger(state.sweeps)) throw new TypeError('the state of the store is unknown')
  return state
}
