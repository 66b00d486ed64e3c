/** The runtime preference that holds the limit (specification, section 2). */
export const perMinutePreference = 'rate-limit.per-minute'

/** The environment form of the configured property (specification, section 2). */
export const perMinuteVariable = 'SERVICE_RATE_LIMIT_PER_MINUTE'

/** Requests per window where nothing else is configured (specification, section 8). */
export const defaultPerMinute = 10

/**
 * The limit in force for a configured one (specification, section 4, steps 2 to 4): 0 switches the quota off, and a
 * negative number fails closed to 1.
 */
export function effectiveLimit (configured: number): number {
  return configured < 0 ? 1 : configured
}
