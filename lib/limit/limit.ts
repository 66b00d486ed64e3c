const hour = 3_600_000
// Time zones differ from UTC by up to three hours more or less than a moment before.
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
  inFlight: { period: null, window: null }
} as const

/** The option that holds a limit. */
export type LimitName = keyof typeof limitKinds
/** What a quota counts in a window; null for requests in flight. */
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
export const preferenceOf = (limit: LimitName, quota?: string): string =>
  ['rate-limit', quota ?? [], limit.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`)]
    .flat()
    .join('.')
/**
 * Returns the environment variable that holds the configured limit of a quota, whose preference has
 * almost the same name.
 */
export const variableOf = (preference: string): `SERVICE_RATE_LIMIT_${string}` =>
  `SERVICE_RATE_LIMIT_${preference.replace('rate-limit.', '').replaceAll(/[.-]/g, '_').toUpperCase()}`

/**
 * Returns the effective limit (docs/rules.md, "Limit", steps 2 to 4). Of a mistake, a negative
 * limit, 1 remains; 0 disables the quota.
 */
export const effectiveLimit = (configured: number): number => (configured < 0 ? 1 : configured)

/**
 * Returns a safe integer, or a string that contains one in decimal notation, as a number; undefined
 * for any other value. Never rounds.
 */
export function toInteger (value: unknown): number | undefined {
  const number = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value
  // Adding 0 turns -0 into 0.
  return Number.isSafeInteger(number) && typeof number === 'number' ? number + 0 : undefined
}
