/** Least time between two cleanup sweeps, in milliseconds (specification, section 8). */
export const sweepInterval = 60_000

/** How long a counter outlives its last request, in milliseconds (specification, section 8). */
export const counterRetention = 120_000
