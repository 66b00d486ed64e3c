import { Counter, Gauge, type Registry } from 'prom-client'
import type { QuotaDecision, UnavailableReason } from '../permit/decision.js'
import type { QuotaInfo } from '../permit/quota.js'
import { labelsOfQuota, placeUnit, type LabelOfQuota } from './quota-labels.js'

/** The name of the metric of all decisions. */
export const decisionsName = 'llm_quota_decisions_total'

/**
 * What can fail, and whether it is a function in the definition of a quota or in a mark. Such a
 * mistake changes no metric of the limit.
 */
const isOfDefinition: Readonly<Record<UnavailableReason, boolean>> = {
  store: false,
  authentication: false,
  mark: true,
  limit: true,
  cost: true,
  'time-zone': true,
  closing: false
}

/** The label `reason` of each series of an operation: empty unless something failed. */
const reasonsByOutcome: Readonly<Record<QuotaDecision['outcome'], readonly string[]>> = {
  admitted: [''],
  rejected: [''],
  unauthenticated: [''],
  disabled: [''],
  unavailable: Object.keys(isOfDefinition)
}

/** Counts decisions. */
export class DecisionMetrics {
  readonly #decisions: Counter<LabelOfQuota | 'operation' | 'outcome' | 'reason' | 'enforced'>
  readonly #overflows: Counter<LabelOfQuota>
  readonly #limits: Gauge<LabelOfQuota>

  /** The operations of quotas whose series exist. */
  readonly #started = new Set<string>()

  constructor (registry: Registry) {
    const registers = [registry]
    this.#decisions = new Counter({
      name: decisionsName,
      help: 'Decisions by quota, operation and outcome; not enforced in shadow mode.',
      labelNames: [...labelsOfQuota, 'operation', 'outcome', 'reason', 'enforced'],
      registers
    })
    this.#overflows = new Counter({
      name: 'llm_quota_overflow_decisions_total',
      help: 'Decisions that used the shared overflow counter.',
      labelNames: labelsOfQuota,
      registers
    })
    this.#limits = new Gauge({
      name: 'llm_quota_limit',
      help: 'The effective limit of the latest decision; 0 if the quota is disabled.',
      labelNames: labelsOfQuota,
      registers,
      aggregator: 'max'
    })
  }

  /** Starts the series of a quota that exist before its first decision. */
  start ({ name: quota, unit }: QuotaInfo): void {
    if (unit !== placeUnit) this.#overflows.inc({ quota, unit }, 0)
  }

  /** Counts a decision. */
  count (decision: QuotaDecision): void {
    const { quota, unit, operation, outcome, reason, enforced, limit, overflow } = decision
    const labels = {
      quota: quota ?? '',
      unit,
      operation: operation === null ? '' : `${operation.method} ${operation.path}`,
      enforced: String(enforced)
    }
    this.#startSeries(labels)
    this.#decisions.inc({ ...labels, outcome, reason: outcome === 'unavailable' ? reason : '' })
    const isMistake = outcome === 'unavailable' && isOfDefinition[reason]
    if (quota === null || isMistake) return
    // Without a caller, the limit can be undetermined.
    const isKnown = limit > 0 || outcome === 'disabled' || outcome === 'rejected'
    if (isKnown) this.#limits.set({ quota, unit }, limit)
    this.#overflows.inc({ quota, unit }, overflow ? 1 : 0)
  }

  /**
   * Prometheus can only calculate a rate from an initial value. Without the 0, the first rejection
   * would be missing.
   */
  #startSeries (labels: Readonly<Record<LabelOfQuota | 'operation' | 'enforced', string>>): void {
    const key = JSON.stringify(labels)
    if (this.#started.has(key)) return
    this.#started.add(key)
    for (const [outcome, reasons] of Object.entries(reasonsByOutcome)) {
      for (const reason of reasons) this.#decisions.inc({ ...labels, outcome, reason }, 0)
    }
  }
}
