import { required } from '../required.js'
import type { HandedOverHolding } from './handed-over.js'
import type { QuotaOfRequest } from './quota-of-request.js'

/**
 * Whether another process can settle what a quota counted for a request. What counts in this
 * process only has no text for a receipt: a store in memory, or a fallback.
 */
export function canBeHandedOver ({ acquisition }: QuotaOfRequest): boolean {
  return typeof acquisition?.receipt === 'string'
}

/**
 * Returns what another process needs to settle what a quota counted; null if only this one can.
 *
 * @param windowEnd When the window that counted it ends, in milliseconds since the epoch; null if
 *   no settlement is published.
 */
export function handedOver (
  each: QuotaOfRequest,
  reported: number | null,
  windowEnd: number | null
): HandedOverHolding | null {
  const { quota, limit } = each
  const { receipt, granted } = required(each.acquisition, 'the acquisition of an admission')
  const { callerKey, start, end } = required(each.demand, 'the demand of an admission')
  if (typeof receipt !== 'string') return null
  return {
    quota: quota.name,
    unit: quota.unit,
    counters: quota.counters,
    callerKey,
    receipt,
    granted,
    isLimited: limit !== Infinity,
    reported,
    start,
    end,
    windowEnd
  }
}
