import type { Acquisition, Demand, QuotaStore } from '../../lib/store/store.js'
import { demand } from './told-store.js'

/** Asks a store for one demand, by default of 5 requests a minute. */
export async function acquireOne (store: QuotaStore, callerKey: string, more: Partial<Demand> = {}): Promise<Acquisition> {
  const [acquisition] = await store.acquire([demand(callerKey, more)])
  if (acquisition == null) throw new Error('the store has not asked about the only demand')
  return acquisition
}

/** A place of a request in flight. */
export const place = (limit = 5): Partial<Demand> => ({ counters: 'streams.in-flight', window: null, limit })
