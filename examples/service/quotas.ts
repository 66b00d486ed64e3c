/** The quotas of the service by the keys of their preferences. */
export const quotaNames = { 'rate-limit.per-minute': 'default' } as const
