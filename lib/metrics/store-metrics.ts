import { Counter, Gauge, type OpenMetricsContentType, type PrometheusContentType, type Registry } from 'prom-client'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaInfo } from '../permit/quota-list.js'
import type { QuotaStore, QuotaStoreState } from '../store/store.js'
import { within } from '../time-limit.js'

/** A registry of `prom-client`, for either content type. */
export type QuotaMetricsRegistry = Registry<PrometheusContentType> | Registry<OpenMetricsContentType>

/** The labels of a quota. */
export const ofQuota = ['quota', 'unit'] as const

/** The value of a gauge for a quota; NaN if it is unknown. */
export interface QuotaValue {
  readonly quota: Pick<QuotaInfo, 'name' | 'unit'>
  readonly value: number
}

type Read = () => readonly QuotaValue[] | Promise<readonly QuotaValue[]>

// How long `inspect` may take, in milliseconds. The collection of all metrics waits for it.
const longestInspection = 500

/** Adds a gauge whose values are read when it is collected. The values of quotas with the same name are combined. */
export function addGauge (registry: QuotaMetricsRegistry, name: string, help: string, aggregator: 'sum' | 'max', read: Read): void {
  registry.registerMetric(new Gauge({
    name,
    help,
    labelNames: ofQuota,
    registers: [],
    aggregator,
    async collect () {
      const all = new Map<string, { unit: string, value: number }>()
      for (const { quota: { name, unit }, value } of await read()) {
        const other = all.get(name)?.value ?? 0
        all.set(name, { unit, value: aggregator === 'max' ? Math.max(other, value) : other + value })
      }
      this.reset()
      for (const [quota, { unit, value }] of all) if (!Number.isNaN(value)) this.set({ quota, unit }, value)
    }
  }))
}

/** Adds the metrics that are read from the stores of all servers when they are collected. */
export function addStoreMetrics (registry: QuotaMetricsRegistry, quotasNow: () => readonly QuotaInfo[]): void {
  addInsuredMetrics(registry, () => quotasNow().map(({ store }) => store).filter((store) => store instanceof InsuredQuotaStore))
  const withCounters = (): QuotaInfo[] => quotasNow().filter(({ unit }) => unit !== 'requests-in-flight')
  const add = (name: string, help: string, read: Read): void => {
    addGauge(registry, name, `${help} The instances that share a store report the same number: use the maximum, not the sum.`, 'max', read)
  }
  const inspectAll = () => Promise.all(withCounters().map(async (quota) => ({ quota, state: await inspect(quota) })))
  let inspection: ReturnType<typeof inspectAll> | undefined
  const read = (part: keyof QuotaStoreState): Read => async () => {
    // Gauges that are collected together share one inspection.
    inspection ??= inspectAll().finally(() => { inspection = undefined })
    return (await inspection).map(({ quota, state }) => ({ quota, value: state[part] }))
  }
  add('llm_quota_tracked_callers', 'Callers that have a counter of their own; no value if unknown.', read('trackedCallers'))
  add('llm_quota_sweeps', 'Sweeps since the store was created or last cleared; no value if unknown.', read('sweeps'))
  add('llm_quota_max_tracked_callers', 'The caller cap of the store.', () =>
    withCounters().map((quota) => ({ quota, value: Number(Object(countingStore(quota.store)).maxTrackedCallers) })))
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
      const shares = stores().map(({ shards: { primary, fallback } }) =>
        fallback.length === 0 ? 1 : primary.length / (primary.length + fallback.length))
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

/** Returns the state of a quota's counters; NaN if the store fails or takes too long. */
async function inspect ({ store, counters }: QuotaInfo): Promise<QuotaStoreState> {
  try {
    const state = await within(longestInspection, (async () => countingStore(store).inspect?.(counters))())
    if (state !== undefined && Number.isSafeInteger(state.trackedCallers) && Number.isSafeInteger(state.sweeps)) return state
  } catch {}
  return { trackedCallers: NaN, sweeps: NaN }
}
