import { OptionError, shown } from './errors.js'

/** How many callers have a counter of their own before the others share the overflow counter (specification, section 8). */
export const defaultMaxTrackedCallers = 10_000

/**
 * The largest number of callers a store can be told to track: the capacity of a JavaScript `Map`, 2^24 entries.
 */
const largestMaxTrackedCallers = 2 ** 24

/** Throws, naming the option, unless so many callers can be tracked. */
export function assertMaxTrackedCallers (value: unknown): asserts value is number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > largestMaxTrackedCallers) {
    throw new OptionError('maxTrackedCallers', `must be an integer from 1 to ${largestMaxTrackedCallers}`, shown(value))
  }
}
