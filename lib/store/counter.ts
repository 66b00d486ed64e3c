import type { Demand } from './store.js'

/**
 * The length of the default quota's window, in milliseconds (docs/rules.md, "Counter and window").
 */
export const windowLength = 60_000

/** The minimum time between two sweeps, in milliseconds (docs/rules.md, "Sweep"). */
export const sweepInterval = 60_000

/** How long a counter is kept after its last request, in milliseconds (docs/rules.md, "Sweep"). */
export function counterRetention (window: number): number {
  return window + 60_000
}

/** The limit that always has room. Also the largest count. */
export const unlimited = Number.MAX_SAFE_INTEGER

/** Whether a demand has room beside what is already counted. Above the limit, it never has. */
export function hasRoom (count: number, { limit, least }: Demand): boolean {
  return limit === unlimited || count + Math.max(least, 1) <= limit
}

/** What a demand that has room is granted: as much as it asks for, as far as there is room. */
export function grantOf (count: number, { limit, most }: Demand): number {
  if (limit === unlimited) return most
  return Math.min(most, limit - count)
}

/** The length of a period, in milliseconds: ten minutes. */
export const periodLength = 600_000

/**
 * Returns the period of ten minutes that a time is in. What was admitted in the current period or
 * in the one before, and has not been settled, is held (docs/rules.md, "Counter and window").
 *
 * @param now Milliseconds of the store's clock.
 */
export function periodOf (now: number): number {
  return Math.floor(now / periodLength)
}
