import { unlimited } from '../../store/counter.js'
import { acquireFrom } from '../../store/result-checks.js'
import type { Acquisition, Demand, QuotaStore } from '../../store/store.js'

/** In which counter, and in which window, something is counted. */
type Counter = Omit<Demand, 'limit' | 'least' | 'most' | 'isEstimate' | 'isWaiting'>

/**
 * Counts what was used beyond an admission, whatever the limit. Rejects if the store fails, or
 * rejects what has no limit.
 */
export async function acquireBeyond (
  store: QuotaStore,
  counter: Counter,
  amount: number
): Promise<Acquisition> {
  const [acquisition] = await acquireFrom(store, [
    { ...counter, limit: unlimited, least: amount, most: amount, isEstimate: false }
  ])
  if (acquisition?.admitted === true) return acquisition
  throw new TypeError('the quota store rejected a demand with the greatest limit')
}
