import type { Demand } from './store.js'

/**
 * The length of the default quota's window, in milliseconds (docs/rules.md, "Counter and window").
 */
export const windowLength = 60_000

/** The minimum time between two sweeps, in milliseconds (docs/rules.md, "Sweep"). */
export const sweepInterval = 60_000

/** How long a counter is kept after it could last count, in milliseconds. */
const retention = 60_000

/** How long a counter is kept after its last request, in milliseconds (docs/rules.md, "Sweep"). */
export function counterRetention (window: number): number {
  return window + retention
}

/**
 * Returns until when the counter of a day, week or month of a time zone is kept, in milliseconds
 * since the epoch (docs/rules.md, "Sweep").
 *
 * @param longest How long a window of the quota can stay open, in milliseconds.
 */
export function keptUntil (start: number, end: number, longest: number): number {
  // Only where a function of the host says when windows start. The next one can then start later
  // than this one ends, and until then, no other may open.
  const canStayOpen = longest >= 2 * (end - start)
  return (canStayOpen ? start + longest : end) + retention
}

/** The limit that always has room. Also the largest count. */
export const unlimited = Number.MAX_SAFE_INTEGER

/**
 * Whether a demand has room beside what is already counted. A `least` above the limit never has,
 * and with a limit of 0 nothing has.
 */
export function hasRoom (count: number, { limit, least }: Demand): boolean {
  return limit === unlimited || count + Math.max(least, 1) <= limit
}

/**
 * Returns what a demand that has room would be granted if it were the only one: as much as it asks
 * for, as far as there is room.
 */
export function grantOf (count: number, { limit, most }: Demand): number {
  if (limit === unlimited) return most
  return Math.min(most, limit - count)
}

/** What a demand would be granted if it were the only one of its request. */
export interface Grant {
  readonly demand: Demand
  readonly granted: number
}

/**
 * Returns what a demand of an admitted request is granted beside the other ones: no more than the
 * least of what those of its unit would be granted alone, and no less than its own `least`. So a
 * cost of one size is granted as it is.
 *
 * @param grants Those of all demands of the request, this one included.
 */
export function grantedAlike ({ least, most, unit }: Demand, grants: readonly Grant[]): number {
  let granted = most
  for (const other of grants) {
    if (other.demand.unit === unit) granted = Math.min(granted, other.granted)
  }
  return Math.max(granted, least)
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
