import timers from 'node:timers'
import { withTimeout } from '../time-limit.js'

/** How long whoever reports in a permit or ends it waits for a store, in milliseconds. */
const longestSettlement = 5000

/**
 * Settles as a settlement does, or rejects with a `TimeLimitError` after 5 seconds. The timers are
 * referenced: a process that does nothing else must not end before it is settled.
 */
export function settledInTime (settling: PromiseLike<unknown>): Promise<unknown> {
  return withTimeout(longestSettlement, settling, { timers })
}

/**
 * Makes a handler wait for a settlement, which never rejects, for 5 seconds at most. After that,
 * the store goes on with it, and a server that closes waits for it.
 */
export async function waitInHandler (settling: PromiseLike<unknown>): Promise<void> {
  try {
    await settledInTime(settling)
  } catch {
    // The store has not answered in time.
  }
}
