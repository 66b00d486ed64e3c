import { Counter, type Registry } from 'prom-client'
import type { QuotaSettlement } from '../channels.js'
import type { QuotaInfo } from '../permit/quota.js'
import { labelsOfQuota, placeUnit, type LabelOfQuota } from './quota-labels.js'

/** Counts what requests have used of quotas in another unit than requests. */
export class UsageMetrics {
  readonly #used: Counter<LabelOfQuota>
  readonly #failedSettlements: Counter<LabelOfQuota>

  /** What was counted too much, by quota and unit: a counter can never decrease. */
  readonly #excess = new Map<string, number>()

  constructor (registry: Registry) {
    this.#used = new Counter({
      name: 'llm_quota_used_total',
      help: 'What requests have used, in the unit of the quota, counted when they are settled.',
      labelNames: labelsOfQuota,
      registers: [registry]
    })
    this.#failedSettlements = new Counter({
      name: 'llm_quota_failed_settlements_total',
      help: 'Settlements that the counters may lack because the store failed.',
      labelNames: labelsOfQuota,
      registers: [registry]
    })
  }

  /** Starts the series of a quota that exist before its first settlement. */
  start ({ name: quota, unit }: QuotaInfo): void {
    if (unit === placeUnit || unit === 'requests') return
    this.#used.inc({ quota, unit }, 0)
    this.#failedSettlements.inc({ quota, unit }, 0)
  }

  /** Counts a settlement. */
  count ({ quota, unit, used, before, failed }: QuotaSettlement): void {
    const key = `${quota} ${unit}`
    // A late report can be less than what was assumed before. The difference is subtracted from
    // what is counted next.
    const due = used - before - (this.#excess.get(key) ?? 0)
    this.#excess.set(key, Math.max(0, -due))
    this.#used.inc({ quota, unit }, Math.max(0, due))
    this.#failedSettlements.inc({ quota, unit }, failed ? 1 : 0)
  }
}
