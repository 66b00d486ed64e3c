import { required } from '../../required.js'
import type { Acquisition, QuotaCount } from '../../store/store.js'
import { decideBy, refusalAmong } from '../decide.js'
import type { QuotaOfRequest } from '../quota-of-request.js'

/**
 * Whether a request waits for room: each quota that refuses it lets it wait, and can have room in
 * time.
 *
 * @param elapsed Milliseconds since the request arrived.
 */
export function canWait (quotas: readonly QuotaOfRequest[], elapsed: number): boolean {
  const left = timeoutOf(quotas) - elapsed
  return left > 0 && quotas.every((each) => !each.isRefused || each.roomIn <= left)
}

/**
 * Returns how long a request waits from its arrival, in milliseconds: the shortest time of the
 * quotas that reject it. 0 if none does, and if another one refuses it.
 */
export function timeoutOf (quotas: readonly QuotaOfRequest[]): number {
  let shortest = Infinity
  for (const { isRefused, decision, quota } of quotas) {
    if (!isRefused) continue
    if (decision?.outcome !== 'rejected' || quota.wait === null) return 0
    shortest = Math.min(shortest, quota.wait.timeout)
  }
  return shortest === Infinity ? 0 : shortest
}

/** Returns the quota that refuses the request, in whose line it waits. */
export function refusing (quotas: readonly QuotaOfRequest[]): QuotaOfRequest {
  const refusal = refusalAmong(quotas)
  const each = quotas.find(({ decision }) => decision !== null && decision === refusal)
  return required(each, 'the quota that refuses a request that waits')
}

/** Decides on a request in one quota by a count that has no room for it. */
export function rejectBy (each: QuotaOfRequest, count: QuotaCount): void {
  const demand = required(each.demand, 'the demand of a request that waits')
  decideBy(each, demand, { ...count, admitted: false, granted: 0 })
}

/** Returns the state of a counter that an acquisition shows. */
export function countOf (acquisition: Acquisition): QuotaCount {
  const { admitted, granted, receipt, isRemembered, ...count } = acquisition
  return count
}
