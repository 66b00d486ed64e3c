/** In milliseconds. */
export const hour = 3_600_000
/** In milliseconds, if the clocks are not changed. */
export const day = 24 * hour

/** The options that hold a limit, one of which a quota has (docs/rules.md, "Several quotas"). */
export const limitNames = [
  'perMinute',
  'perHour',
  'perDay',
  'perWeek',
  'perMonth',
  'limit',
  'concurrent'
] as const

/** The option that holds a limit. */
export type LimitName = (typeof limitNames)[number]

/**
 * The window of each limit, with its length in milliseconds (for a month, the longest). The length
 * of that of `limit` is defined beside it, and concurrent requests have no window.
 */
export const limitKinds = {
  perMinute: { period: 'minute', window: 60_000 },
  perHour: { period: 'hour', window: hour },
  perDay: { period: 'day', window: day },
  perWeek: { period: 'week', window: 7 * day },
  perMonth: { period: 'month', window: 31 * day },
  limit: { period: null, window: null },
  concurrent: { period: null, window: null }
} as const satisfies Record<LimitName, object>

/**
 * What the window of a quota is; null for concurrent requests and for a window of the host's own
 * length.
 */
export type QuotaPeriod = (typeof limitKinds)[LimitName]['period']

/** The shortest window of a host's own length, in milliseconds. */
export const shortestOwnWindow = 1000

/** The longest window of a host's own length, in milliseconds: a leap year. */
export const longestOwnWindow = 366 * day
