import type { Caller } from '../caller/request-caller.js'
import type { Demand, QuotaCount } from '../store/store.js'
import { wallClock } from '../wall-clock.js'
import type { CostRange } from './cost.js'
import type { Quota } from './quota.js'

/** What a quota asks its store for. Throws if the caller's time zone cannot be determined. */
export function demandOn (quota: Quota, caller: Caller, limit: number, cost: CostRange): Demand {
  const isPlace = quota.longestWindow === null
  return {
    counters: quota.counters,
    callerKey: caller.callerKey,
    limit,
    // What is above the limit counts as the limit, so that a fresh caller gets one request through.
    least: Math.min(cost.least, limit),
    most: Math.min(cost.most, limit),
    isEstimate: isPlace || quota.unit !== 'requests',
    window: quota.longestWindow,
    end: quota.endOfWindow === null ? null : quota.endOfWindow(caller)
  }
}

/** Returns the milliseconds until the window of a count ends; null if it has no window. */
export function timeLeft ({ windowRemaining, end }: QuotaCount): number | null {
  return end === undefined ? windowRemaining : Math.max(1, end - wallClock())
}
