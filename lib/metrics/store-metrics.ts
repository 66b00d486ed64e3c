import { Counter, Gauge, type Registry } from 'prom-client'
import type { QuotaInfo } from '../permit/quota.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import { shardsOf } from '../store/sharded/sharded-store.js'
import { Inspections, type Inspection, type StoreNumber } from './inspections.js'
import { labelsOfQuota } from './quota-labels.js'

/** Adds the metrics that are read from the stores of all servers when they are collected. */
export function addStoreMetrics (
  registry: Registry,
  quotasNow: () => readonly QuotaInfo[]
): void {
  const inspections = new Inspections(quotasNow)
  addStoreNumber(
    registry,
    inspections,
    'trackedCallers',
    'llm_quota_tracked_callers',
    'Callers that have a counter of their own; no value if unknown.'
  )
  addStoreNumber(
    registry,
    inspections,
    'sweeps',
    'llm_quota_sweeps',
    'Sweeps since the store was created or last cleared; no value if unknown.'
  )
  addStoreNumber(
    registry,
    inspections,
    'maxTrackedCallers',
    'llm_quota_max_tracked_callers',
    'The caller cap of the store.'
  )
  const insuredNow = (): InsuredQuotaStore[] =>
    quotasNow()
      .flatMap(({ store }) => shardsOf(store))
      .filter((store) => store instanceof InsuredQuotaStore)
  addInsuredShare(registry, insuredNow)
  addInsuredCalls(registry, insuredNow)
}

function addStoreNumber (
  registry: Registry,
  inspections: Inspections,
  part: StoreNumber,
  name: string,
  help: string
): void {
  const advice =
    'The instances that share a store report the same number: use the maximum, not the sum.'
  registry.registerMetric(
    new Gauge({
      name,
      help: `${help} ${advice}`,
      labelNames: labelsOfQuota,
      registers: [],
      aggregator: 'max',
      async collect () {
        const inspected = await inspections.get()
        this.reset()
        for (const { name: quota, unit, value } of highestByQuota(inspected, part)) {
          this.set({ quota, unit }, value)
        }
      }
    })
  )
}

/** A known number of the quotas with the same name and unit. */
interface Highest extends Pick<QuotaInfo, 'name' | 'unit'> {
  readonly value: number
}

/** Returns the highest known number of the quotas with the same name and unit. */
function highestByQuota (inspected: readonly Inspection[], part: StoreNumber): Iterable<Highest> {
  const highest = new Map<string, Highest>()
  for (const { name, unit, [part]: value } of inspected) {
    const key = `${name} ${unit}`
    const known = highest.get(key)
    if (value === undefined || (known !== undefined && known.value >= value)) continue
    highest.set(key, { name, unit, value })
  }
  return highest.values()
}

function addInsuredShare (
  registry: Registry,
  insuredNow: () => readonly InsuredQuotaStore[]
): void {
  registry.registerMetric(
    new Gauge({
      name: 'llm_quota_insured_primary',
      help:
        'The share of the insured stores whose primary decides, from 0 to 1. ' +
        'With one such store, 1 or 0.',
      registers: [],
      aggregator: 'min',
      collect () {
        this.remove()
        const insured = new Set(insuredNow())
        const onPrimary = [...insured].filter(({ state }) => state === 'primary')
        if (insured.size > 0) this.set(onPrimary.length / insured.size)
      }
    })
  )
}

function addInsuredCalls (
  registry: Registry,
  insuredNow: () => readonly InsuredQuotaStore[]
): void {
  // What was counted of each store.
  const counted = new WeakMap<InsuredQuotaStore, InsuredQuotaStore['decisions']>()
  registry.registerMetric(
    new Counter({
      name: 'llm_quota_insured_decisions_total',
      help: 'Calls of an insured store, by the store that decided: primary or fallback.',
      labelNames: ['store'],
      registers: [],
      collect () {
        for (const store of insuredNow()) {
          const { decisions } = store
          const { primary, fallback } = counted.get(store) ?? { primary: 0, fallback: 0 }
          this.inc({ store: 'primary' }, decisions.primary - primary)
          this.inc({ store: 'fallback' }, decisions.fallback - fallback)
          counted.set(store, { ...decisions })
        }
      }
    })
  )
}
