/** Length of every counter's fixed window, in milliseconds (docs/rules.md, "Counter and window"). */
const windowLength = 60_000

/** Milliseconds until the window that began at `windowStart` ends; 0 or less when the window is over. */
export function windowRemaining (windowStart: number, now: number): number {
  return windowLength - (now - windowStart)
}

// Exported here for the reason in sweep.ts.
export { windowLength }
