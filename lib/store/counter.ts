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

/** Whether a demand has room beside what is already counted. */
export function hasRoom (count: number, { limit, least }: Demand): boolean {
  return limit === unlimited || count + Math.max(least, 1) <= limit
}

/** What a demand that has room is granted: as much as it asks for, as far as there is room. */
export function grantOf (count: number, { limit, most }: Demand): number {
  if (limit === unlimited) return most
  // Another demand of the request can have used the rest of the same overflow counter.
  return Math.min(most, Math.max(0, limit - count))
}

/** What is counted in one window of a counter, or at the same time. */
export interface Counted {
  /** What requests have used, and what they hold. */
  count: number
  /** The part of the count that requests in progress hold. */
  held: number
}

/** Counts what was granted. A count stops at the largest one. */
export function addTo (counted: Counted, granted: number, held: number): void {
  counted.count = Math.min(counted.count + granted, unlimited)
  counted.held = Math.min(counted.held + held, unlimited)
}

/** Takes back a part of what was counted, and of what was held. No more is held than is counted. */
export function takeFrom (counted: Counted, count: number, held: number): void {
  counted.count = Math.max(0, counted.count - count)
  counted.held = Math.min(Math.max(0, counted.held - held), counted.count)
}
