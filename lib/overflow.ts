/** How many callers have a counter of their own before the others share the overflow counter (specification, section 8). */
export const defaultMaxTrackedCallers = 10_000

/**
 * The largest number of callers a store can be told to track: the capacity of a JavaScript `Map`, 2^24 entries.
 */
export const largestMaxTrackedCallers = 2 ** 24
