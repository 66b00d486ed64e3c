export { quotaMetricsPlugin, quotaMetricsPlugin as default } from './metrics/plugin.js'
export type { QuotaMetricsOptions, QuotaMetricsRegistry } from './metrics/options.js'
