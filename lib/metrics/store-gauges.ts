import { Gauge } from 'prom-client'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaStore, QuotaStoreState } from '../store/store.js'
import type { QuotaMetricsRegistry } from './options.js'
import { StoreInspection } from './store-inspection.js'

/**
 * Adds the gauges that read the state of the stores when they are collected. With several stores, the values are added up.
 *
 * @param stores Returns the stores in use.
 */
export function addStoreGauges (registry: QuotaMetricsRegistry, stores: () => readonly QuotaStore[]): void {
  const inspection = new StoreInspection(stores)
  createStateGauge(registry, 'trackedCallers', 'llm_quota_tracked_callers', 'Callers that have a counter of their own.', inspection)
  createStateGauge(registry, 'sweeps', 'llm_quota_sweeps', 'Sweeps since the store was created or last cleared.', inspection)
  createInsuredGauge(registry, stores)
}

function createStateGauge (registry: QuotaMetricsRegistry, part: keyof QuotaStoreState, name: string, help: string, inspection: StoreInspection): Gauge {
  return new Gauge({
    name,
    help,
    registers: [registry],
    async collect () {
      try {
        this.set((await inspection.inspect())[part])
      } catch {
        // A failing store must not prevent the collection of the other metrics, and its last known state may be out of date.
        this.remove()
      }
    }
  })
}

function createInsuredGauge (registry: QuotaMetricsRegistry, stores: () => readonly QuotaStore[]): Gauge {
  return new Gauge({
    name: 'llm_quota_insured_primary',
    help: '1 while the primary of an insured store answers, 0 while its fallback does; no series if the store is not insured.',
    registers: [registry],
    aggregator: 'min',
    collect () {
      const insured = stores().filter((store) => store instanceof InsuredQuotaStore)
      if (insured.length === 0) this.remove()
      else this.set(insured.every(({ state }) => state === 'primary') ? 1 : 0)
    }
  })
}
