import type { ModelUsage } from '../model/usage.js'
import { isNatural } from '../option-checks.js'
import { noAmount } from './amounts.js'
import type { Permit } from './permit.js'
import { takesUsage, type Quota } from './quota.js'
import type { QuotaLog } from './quota-log.js'
import type { Requester } from './requester.js'

/** Reports a model's usage in each quota of a permit that takes one. Never rejects. */
export async function reportUsage (
  permit: Permit | undefined,
  usage: ModelUsage,
  quotaLog: QuotaLog
): Promise<void> {
  await reportInUnits(permit, quotaLog, (quota, granted, requester) =>
    amountOf(usage, quota, granted, requester)
  )
}

/**
 * Reports in each quota of a permit that takes a usage the greatest of what it granted and what
 * several usages are. Never rejects.
 */
export async function reportGreatest (
  permit: Permit | undefined,
  usages: readonly ModelUsage[],
  quotaLog: QuotaLog
): Promise<void> {
  await reportInUnits(permit, quotaLog, (quota, granted, requester) => {
    const amounts = usages.map((usage) => amountOf(usage, quota, granted, requester))
    return Math.max(granted, ...amounts)
  })
}

async function reportInUnits (
  permit: Permit | undefined,
  quotaLog: QuotaLog,
  read: (quota: Quota, granted: number, requester: Requester) => number
): Promise<void> {
  if (permit === undefined || !permit.countsUsage) {
    quotaLog.uncountedUnit('tokens')
    return
  }
  const { requester } = permit
  await permit.reportEach((quota, granted) =>
    takesUsage(quota) ? read(quota, granted, requester) : null
  )
}

/** Returns what a usage is in the unit of a quota; what was granted if that fails. */
function amountOf (
  usage: ModelUsage,
  { fromUsage, name }: Quota,
  granted: number,
  requester: Requester
): number {
  if (fromUsage === undefined) return usage.total
  try {
    const amount: unknown = fromUsage(usage, requester.request)
    if (isNatural(amount)) return amount
    throw noAmount(amount)
  } catch (error) {
    requester.server.quotaLog.fromUsageFailed(error, name, requester.log)
    return granted
  }
}
