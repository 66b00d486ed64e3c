import {
  Counter,
  Gauge,
  type OpenMetricsContentType,
  type PrometheusContentType,
  type Registry
} from 'prom-client'
import type { QuotaInfo } from '../permit/quota.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import { withTimeout } from '../time-limit.js'

/** A registry of `prom-client`, for either content type. */
export type QuotaMetricsRegistry =
  Registry<PrometheusContentType> | Registry<OpenMetricsContentType>

/** The labels of a quota. */
export const ofQuota = ['quota', 'unit'] as const

// How long `inspect` may take, in milliseconds. The collection of all metrics waits for it.
const longestInspection = 500

const ofStores = [
  [
    'trackedCallers',
    'llm_quota_tracked_callers',
    'Callers that have a counter of their own; no value if unknown.'
  ],
  [
    'sweeps',
    'llm_quota_sweeps',
    'Sweeps since the store was created or last cleared; no value if unknown.'
  ],
  ['maxTrackedCallers', 'llm_quota_max_tracked_callers', 'The caller cap of the store.']
] as const
const advice =
  'The instances that share a store report the same number: use the maximum, not the sum.'
const ofShards =
  'The share of the shards of an insured store for which the primary decides, from 0 to 1. Without shards, 1 or 0.'
const ofCalls = 'Calls of an insured store, by the store that decided: primary or fallback.'

/** Adds the metrics that are read from the stores of all servers when they are collected. */
export function addStoreMetrics (
  registry: QuotaMetricsRegistry,
  quotasNow: () => readonly QuotaInfo[]
): void {
  const inspectAll = () =>
    Promise.all(
      quotasNow()
        .filter(({ unit }) => unit !== 'requests-in-flight')
        .map(inspect)
    )
  let inspection: ReturnType<typeof inspectAll> | undefined
  for (const [part, name, ofPart] of ofStores) {
    const collect = async function (this: Gauge<'quota' | 'unit'>): Promise<void> {
      // Gauges that are collected together share one inspection.
      inspection ??= inspectAll().finally(() => {
        inspection = undefined
      })
      // Of the quotas with the same name.
      const highest = new Map<string, { readonly unit: string; readonly value: number }>()
      for (const { name, unit, [part]: value } of await inspection) {
        highest.set(name, { unit, value: Math.max(highest.get(name)?.value ?? 0, value) })
      }
      this.reset()
      for (const [quota, { unit, value }] of highest) {
        if (!Number.isNaN(value)) this.set({ quota, unit }, value)
      }
    }
    const help = `${ofPart} ${advice}`
    registry.registerMetric(
      new Gauge({ name, help, labelNames: ofQuota, registers: [], aggregator: 'max', collect })
    )
  }

  const insured = () =>
    quotasNow()
      .map(({ store }) => store)
      .filter((store) => store instanceof InsuredQuotaStore)
  const share = function (this: Gauge): void {
    this.remove()
    const shares = insured().map(({ shards: { primary, fallback } }) =>
      fallback.length === 0 ? 1 : primary.length / (primary.length + fallback.length)
    )
    if (shares.length > 0) this.set(Math.min(...shares))
  }
  registry.registerMetric(
    new Gauge({
      name: 'llm_quota_insured_primary',
      help: ofShards,
      registers: [],
      aggregator: 'min',
      collect: share
    })
  )

  const counted = new WeakMap<InsuredQuotaStore['decisions'], InsuredQuotaStore['decisions']>()
  const count = function (this: Counter<'store'>): void {
    for (const { decisions } of insured()) {
      const { primary = 0, fallback = 0 } = counted.get(decisions) ?? {}
      this.inc({ store: 'primary' }, decisions.primary - primary)
      this.inc({ store: 'fallback' }, decisions.fallback - fallback)
      counted.set(decisions, { ...decisions })
    }
  }
  registry.registerMetric(
    new Counter({
      name: 'llm_quota_insured_decisions_total',
      help: ofCalls,
      labelNames: ['store'],
      registers: [],
      collect: count
    })
  )
}

/**
 * Returns the state of a quota's counters; NaN for what is unknown, also while the primary of an
 * insured store is down.
 */
async function inspect ({ name, unit, store, counters }: QuotaInfo) {
  const counting = store instanceof InsuredQuotaStore ? store.primary : store
  const maxTrackedCallers = Number(Object(counting).maxTrackedCallers)
  const state = await withTimeout(
    longestInspection,
    (async () => counting.inspect?.(counters))()
  ).catch(() => undefined)
  const isValid = Number.isSafeInteger(state?.trackedCallers) && Number.isSafeInteger(state?.sweeps)
  const { trackedCallers = NaN, sweeps = NaN } = isValid ? Object(state) : {}
  return { name, unit, maxTrackedCallers, trackedCallers, sweeps }
}
