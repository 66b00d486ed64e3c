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
export function hasRoom (count: number, limit: number, cost: number): boolean {
  return count + Math.max(cost, 1) <= limit || limit === unlimited
}
