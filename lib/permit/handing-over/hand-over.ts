import { required } from '../../required.js'
import type { QuotaDecision } from '../decision.js'
import type { HandedOverHolding } from './handed-over.js'
import type { QuotaOfRequest } from '../quota-of-request.js'

/** What decides whether a permit can be handed over. */
interface PermitParts {
  readonly refusal: QuotaDecision | null
  readonly hasEnded: boolean
  /** Its quotas, without shadow quotas. */
  readonly quotas: readonly QuotaOfRequest[]
}

/**
 * Throws a `TypeError` if no other process can end a permit.
 *
 * @param all Its quotas, shadow quotas included.
 */
export function assertCanBeHandedOver (
  { refusal, hasEnded, quotas }: PermitParts,
  all: readonly QuotaOfRequest[]
): void {
  if (refusal !== null) throw notHandedOver('was refused')
  if (hasEnded) throw notHandedOver('has ended')
  if (quotas.some(({ quota, holding }) => holding !== null && quota.longestWindow === null)) {
    throw notHandedOver('has places')
  }
  const counted = all.filter(({ holding }) => holding !== null)
  if (counted.length > 0 && !counted.some(canBeHandedOver)) {
    throw notHandedOver('is counted in this process only')
  }
}

function notHandedOver (why: string): TypeError {
  return new TypeError(`fastify-llm-quota: a permit that ${why} cannot be handed over`)
}

/**
 * Whether another process can settle what a quota counted for a request. What counts in this
 * process only has no text for a receipt: a store in memory, or a fallback.
 */
function canBeHandedOver ({ acquisition }: QuotaOfRequest): boolean {
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
