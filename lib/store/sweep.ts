/** Minimum time between two sweeps, in milliseconds (docs/rules.md, "Sweep"). */
const sweepInterval = 60_000

/** How long a counter is kept after its last request, in milliseconds (docs/rules.md, "Sweep"). */
const counterRetention = 120_000

/** Whether a request at `now` runs a sweep if the previous sweep was at `sweptAt`. */
export function isSweepDue (sweptAt: number, now: number): boolean {
  return now - sweptAt >= sweepInterval
}

/** Whether a sweep at `sweptAt` removes a counter that was last seen at `lastSeen`. */
export function isRemovedBySweep (lastSeen: number, sweptAt: number): boolean {
  return sweptAt - lastSeen >= counterRetention
}

// Exported here because each use in this file would otherwise read a property of `exports`, which costs more than a constant.
export { counterRetention, sweepInterval }
