export {
  quotaMetricsPlugin,
  quotaMetricsPlugin as default,
  type QuotaMetricsOptions
} from './metrics/plugin.js'
export type { QuotaMetricsRegistry } from './metrics/store-metrics.js'
