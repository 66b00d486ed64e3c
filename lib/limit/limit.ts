const hour = 3_600_000

/** By how much the offset of a time zone changes at most, in milliseconds. */
const longestChange = 3 * hour

/** The longest day of a time zone, in milliseconds. */
export const longestDay = 24 * hour + longestChange

/**
 * The limits of quotas by option (docs/rules.md, "Several quotas"): in a window, whose longest
 * length is in milliseconds, or at once.
 */
export const limitKinds = {
  perMinute: { period: 'minute', window: 60_000 },
  perHour: { period: 'hour', window: hour },
  perDay: { period: 'day', window: 24 * hour },
  perMonth: { period: 'month', window: 31 * 24 * hour + longestChange },
  concurrent: { period: null, window: null }
} as const

/** The option that holds a limit. */
export type LimitName = keyof typeof limitKinds

/** All options that hold a limit. */
export const limitNames: readonly LimitName[] = [
  'perMinute',
  'perHour',
  'perDay',
  'perMonth',
  'concurrent'
]

/** What a quota counts in a window; null for concurrent requests. */
export type QuotaPeriod = (typeof limitKinds)[LimitName]['period']

/**
 * The default limit of the default quota and of a quota without a limit, in requests per minute
 * (docs/rules.md, "Limit").
 */
export const defaultPerMinute = 10
/**
 * The environment variable that holds the configured limit of the default quota (docs/rules.md,
 * "Limit").
 */
export const perMinuteVariable = 'SERVICE_RATE_LIMIT_PER_MINUTE'

/**
 * Returns the runtime preference that holds a limit. `quota` is undefined for the default quota.
 */
export function preferenceOf (limit: LimitName, quota?: string): string {
  const name = limit.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`)
  return quota === undefined ? `rate-limit.${name}` : `rate-limit.${quota}.${name}`
}

/**
 * Returns the environment variable that holds the configured limit of a quota, whose preference has
 * almost the same name.
 */
export function variableOf (preference: string): `SERVICE_RATE_LIMIT_${string}` {
  const name = preference.replace('rate-limit.', '').replaceAll(/[.-]/g, '_')
  return `SERVICE_RATE_LIMIT_${name.toUpperCase()}`
}

/**
 * Returns the effective limit (docs/rules.md, "Limit", steps 2 to 4). A negative limit is a
 * mistake and becomes 1; 0 disables the quota.
 */
export function effectiveLimit (configured: number): number {
  return configured < 0 ? 1 : configured
}

/**
 * Returns a safe integer, or a string that contains one in decimal notation, as a number; undefined
 * for any other value. Never rounds.
 */
export function toInteger (value: unknown): number | undefined {
  const number = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isSafeInteger(number)) return undefined
  // Adding 0 turns -0 into 0.
  return number + 0
}
