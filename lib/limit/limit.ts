/** What a quota counts. */
export type QuotaUnit = 'requests' | 'tokens' | 'requests-in-flight'

interface LimitKind {
  readonly unit: QuotaUnit
  /** The length of the window, in milliseconds; null for requests in flight. */
  readonly window: number | null
  /** The name of the limit in preferences. */
  readonly key: string
}

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

/** The limits that a quota can have, by option (docs/rules.md, "Several quotas"). */
export const limitKinds = {
  perMinute: { unit: 'requests', window: minute, key: 'per-minute' },
  perHour: { unit: 'requests', window: hour, key: 'per-hour' },
  perDay: { unit: 'requests', window: day, key: 'per-day' },
  tokensPerMinute: { unit: 'tokens', window: minute, key: 'tokens-per-minute' },
  tokensPerHour: { unit: 'tokens', window: hour, key: 'tokens-per-hour' },
  tokensPerDay: { unit: 'tokens', window: day, key: 'tokens-per-day' },
  inFlight: { unit: 'requests-in-flight', window: null, key: 'in-flight' }
} as const satisfies Record<string, LimitKind>

/** The option that holds a limit. */
export type LimitName = keyof typeof limitKinds

/** The default limit of the default quota and of a quota without a limit, in requests per minute (docs/rules.md, "Limit"). */
export const defaultPerMinute = 10

/** The environment variable that holds the configured limit of the default quota (docs/rules.md, "Limit"). */
export const perMinuteVariable = 'SERVICE_RATE_LIMIT_PER_MINUTE'

/** Returns the runtime preference that holds a limit. `quota` is undefined for the default quota. */
export function preferenceOf (limit: LimitName, quota?: string): string {
  return ['rate-limit', ...(quota === undefined ? [] : [quota]), limitKinds[limit].key].join('.')
}

/** Returns the environment variable that holds the configured limit of a named quota. */
export function variableOf (limit: LimitName, quota: string): `SERVICE_RATE_LIMIT_${string}` {
  return `SERVICE_RATE_LIMIT_${`${quota}-${limitKinds[limit].key}`.toUpperCase().replaceAll('-', '_')}`
}

/**
 * Returns the effective limit (docs/rules.md, "Limit", steps 2 to 4). 0 means that the quota is disabled. A negative limit becomes 1,
 * so that a mistake does not disable the quota.
 */
export function effectiveLimit (configured: number): number {
  return configured < 0 ? 1 : configured
}

const decimal = /^-?\d+$/

/** Returns a safe integer, or a string that contains one in decimal notation, as a number; undefined for any other value. Never rounds. */
export function toInteger (value: unknown): number | undefined {
  const number = typeof value === 'string' && decimal.test(value) ? Number(value) : value
  // Adding 0 turns -0 into 0.
  return Number.isSafeInteger(number) && typeof number === 'number' ? number + 0 : undefined
}
