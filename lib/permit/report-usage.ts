import { formatType } from '../errors.js'
import type { ModelUsage } from '../model/usage.js'
import { isNatural } from '../option-checks.js'
import { ignoreRejection } from '../promises.js'
import type { Permit } from './permit.js'
import { takesUsage } from './quota.js'
import type { QuotaLog } from './quota-log.js'
import type { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'

/** Reports a model's usage in each quota of a permit that takes one. Never rejects. */
export async function reportUsage (
  permit: Permit | undefined,
  usage: ModelUsage,
  quotaLog: QuotaLog
): Promise<void> {
  await reportInUnits(permit, quotaLog, (each, requester) => amountOf(usage, each, requester))
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
  await reportInUnits(permit, quotaLog, (each, requester) => {
    const amounts = usages.map((usage) => amountOf(usage, each, requester))
    return Math.max(grantedOf(each), ...amounts)
  })
}

async function reportInUnits (
  permit: Permit | undefined,
  quotaLog: QuotaLog,
  read: (each: QuotaOfRequest, requester: Requester) => number
): Promise<void> {
  if (permit === undefined || !permit.countsUsage) {
    quotaLog.uncountedUnit('tokens')
    return
  }
  const { requester } = permit
  await permit.reportEach((each) => (takesUsage(each.quota) ? read(each, requester) : null))
}

/** Returns what a usage is in the unit of a quota; what was granted if that fails. */
function amountOf (usage: ModelUsage, each: QuotaOfRequest, requester: Requester): number {
  const { fromUsage, name } = each.quota
  if (fromUsage === undefined) return usage.total
  try {
    const amount: unknown = fromUsage(usage, requester.request)
    if (isNatural(amount)) return amount
    ignoreRejection(amount)
    const got = formatType(amount)
    throw new RangeError(`an amount must be a safe integer of at least 0; it got ${got}`)
  } catch (error) {
    requester.server.quotaLog.fromUsageFailed(error, name, requester.log)
    return grantedOf(each)
  }
}

function grantedOf ({ holding }: QuotaOfRequest): number {
  return holding?.granted ?? 0
}
