/** The runtime preference that holds the limit (docs/rules.md, "Limit"). */
export const perMinutePreference = 'rate-limit.per-minute'

/** The environment variable that sets the configured property (docs/rules.md, "Limit"). */
export const perMinuteVariable = 'SERVICE_RATE_LIMIT_PER_MINUTE'

/** The runtime preference that holds the limit of a named quota. */
export function namedPreference (quota: string): string {
  return `rate-limit.${quota}.per-minute`
}

/** The environment variable that holds the configured limit of a named quota. */
export function namedVariable (quota: string): `SERVICE_RATE_LIMIT_${string}_PER_MINUTE` {
  return `SERVICE_RATE_LIMIT_${quota.toUpperCase().replaceAll('-', '_')}_PER_MINUTE`
}

/** The default limit, in requests per window (docs/rules.md, "Limit"). */
export const defaultPerMinute = 10

/**
 * Returns the effective limit (docs/rules.md, "Limit", steps 2 to 4). 0 means that the quota is disabled. A negative limit becomes 1,
 * so that a mistake does not disable the quota.
 */
export function effectiveLimit (configured: number): number {
  return configured < 0 ? 1 : configured
}
