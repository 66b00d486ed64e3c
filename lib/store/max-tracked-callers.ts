import { OptionError } from '../errors.js'
import { shown } from '../shown.js'

/** The default caller cap: how many callers can have a counter of their own (docs/rules.md, "Caller cap and overflow counter"). */
export const defaultMaxTrackedCallers = 10_000

/**
 * The largest `maxTrackedCallers`: the capacity of a JavaScript `Map`, 2^24 entries.
 */
const largestMaxTrackedCallers = 2 ** 24

/** Throws an `OptionError` unless the value is a usable caller cap. */
export function assertMaxTrackedCallers (value: unknown): asserts value is number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > largestMaxTrackedCallers) {
    throw new OptionError('maxTrackedCallers', `must be an integer from 1 to ${largestMaxTrackedCallers}`, shown(value))
  }
}
