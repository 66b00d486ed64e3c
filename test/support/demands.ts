import type { Acquisition, Demand, QuotaStore } from '../../lib/store/store.js'

/** A demand of a caller, by default for one of 5 requests a minute. */
export function demand (callerKey: string, more: Partial<Demand> = {}): Demand {
  return {
    counters: 'default',
    callerKey,
    limit: 5,
    least: 1,
    most: 1,
    isEstimate: false,
    window: 60_000,
    start: null,
    end: null,
    unit: 'requests',
    reference: null,
    ...more
  }
}

/** Asks a store for one demand, by default of 5 requests a minute. */
export async function acquireOne (
  store: QuotaStore,
  callerKey: string,
  more: Partial<Demand> = {}
): Promise<Acquisition> {
  const [acquisition] = await store.acquire([demand(callerKey, more)])
  if (acquisition == null) throw new Error('the store was not asked about the only demand')
  return acquisition
}

/** A place of a concurrent request. */
export function place (limit = 5): Partial<Demand> {
  return {
    counters: 'streams.concurrent',
    window: null,
    isEstimate: true,
    limit,
    unit: 'concurrent-requests'
  }
}

/** An estimate of tokens, by default of one of 5 a day. */
export function estimate (most = 1, more: Partial<Demand> = {}): Partial<Demand> {
  return {
    counters: 'chat.tokens.day',
    least: most,
    most,
    isEstimate: true,
    unit: 'tokens',
    ...more
  }
}
