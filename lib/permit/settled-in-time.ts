import timers from 'node:timers'
import { TimeLimitError, withTimeout } from '../time-limit.js'

/** How long a store is waited for, for what it is to settle, in milliseconds. */
const longestSettlement = 5000

/**
 * Settles as a settlement does, or rejects with a `TimeLimitError` after 5 seconds. The timers are
 * referenced: a process that does nothing else must not end before it is settled.
 */
export function settledInTime (settling: PromiseLike<void>): Promise<void> {
  return withTimeout(longestSettlement, settling, { timers })
}
