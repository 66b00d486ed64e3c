import type { Caller } from '../caller/request-caller.js'
import type { Demand } from '../store/store.js'
import type { CostRange } from './cost.js'
import type { Quota } from './quota.js'

/** Returns what a quota asks its store for. Throws if the time zone cannot be determined. */
export function demandOn (quota: Quota, caller: Caller, limit: number, cost: CostRange): Demand {
  const day = quota.windowNow === null ? null : quota.windowNow(caller)
  return {
    counters: quota.counters,
    callerKey: caller.callerKey,
    limit,
    least: cost.least,
    most: cost.most,
    isEstimate: quota.unit !== 'requests',
    window: quota.longestWindow,
    start: day === null ? null : day.start,
    end: day === null ? null : day.end
  }
}
