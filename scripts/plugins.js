// The entry points with a default export, a plugin, and its name.
export const plugins = {
  index: 'quotaPlugin',
  metrics: 'quotaMetricsPlugin',
  earlier: 'earlierQuotaPlugin'
}
