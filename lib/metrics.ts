export {
  quotaMetricsPlugin,
  quotaMetricsPlugin as default,
  type QuotaMetricsOptions,
  type QuotaMetricsRegistry
} from './metrics/plugin.js'
