import type { OpenMetricsContentType, PrometheusContentType, Registry } from 'prom-client'

/** A registry of `prom-client`, for either content type. */
export type QuotaMetricsRegistry = Registry<PrometheusContentType> | Registry<OpenMetricsContentType>
