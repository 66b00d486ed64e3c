import type { Caller } from '../caller/request-caller.js'
import type { CalendarWindow } from '../limit/calendar.js'
import type { Acquisition, Demand } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import type { CostRange } from './cost.js'
import {
  withoutStore,
  type OutcomeWithoutStore,
  type QuotaDecision,
  type UnavailableReason
} from './decision.js'
import type { Reportable } from './holdings/holding.js'
import type { Quota } from './quota.js'

/**
 * All that is known of one quota of one request. `prepare` adds the caller, the limit and the cost,
 * and with them the demand, or a decision without one; `ask` adds the acquisition and the decision
 * on it.
 */
export class QuotaOfRequest {
  readonly quota: Quota
  /** The operation that the request reaches; null if there is no request. */
  readonly operation: Operation | null
  /** The id of the request, or what the host gave; null if it gave none. */
  readonly reference: string | null
  /** Null until it is known, and if the quota is decided on without a caller. */
  caller: Caller | null = null
  /** Null until it is known. */
  cost: CostRange | null
  /** The effective limit; 0 until it is known, and if there is none. */
  limit = 0
  /** The day, week or month of the caller, as it is asked for; null if the quota has none. */
  calendarWindow: CalendarWindow | null = null
  /** What the store is asked for; null if the quota is decided on without its store. */
  demand: Demand | null = null
  /** What the store returned; null if it was not asked, or failed. */
  acquisition: Acquisition | null = null
  /** Null if the store was not asked, because another quota refuses the request. */
  decision: QuotaDecision | null = null
  /**
   * How long it takes at least until there can be room, in milliseconds: 0 if others hold it, and
   * `Infinity` if there never will be. 0 unless the store rejects the request.
   */
  roomIn = 0
  /**
   * How long a client should wait before it retries, in milliseconds: `roomIn`, or a second for
   * what others hold. 0 unless the store rejects the request.
   */
  retryIn = 0
  /** What an admitted request has of the quota; null if that has counted nothing. */
  holding: Reportable | null = null

  /** @param cost What a handler gives in place of the cost of the definition; null if nothing. */
  constructor (
    quota: Quota,
    operation: Operation | null,
    reference: string | null,
    cost: CostRange | null
  ) {
    this.quota = quota
    this.operation = operation
    this.reference = reference
    this.cost = cost
  }

  /**
   * Returns the same quota of the same request, undecided, with its cost; `prepare` asks the
   * requester for the caller again.
   */
  anew (): QuotaOfRequest {
    return new QuotaOfRequest(this.quota, this.operation, this.reference, this.cost)
  }

  /** Decides without the store. */
  decideWithout (outcome: OutcomeWithoutStore): void {
    const { quota, limit } = this
    this.decision = { ...outcome, quota: quota.name, ...withoutStore(quota, this, limit) }
  }

  /** Decides that the quota is unavailable, because something failed. */
  fail (reason: UnavailableReason): void {
    const callerKey = this.caller?.callerKey ?? null
    this.decideWithout({ outcome: 'unavailable', reason, callerKey, retryAfter: 1 })
  }

  /** Whether the decision does not admit the request. */
  get isRefused (): boolean {
    if (this.decision === null) return false
    const { outcome } = this.decision
    return outcome !== 'admitted' && outcome !== 'disabled'
  }
}

/** Returns the decisions of the quotas that have one, in their order. */
export function decisionsOf (quotas: readonly QuotaOfRequest[]): QuotaDecision[] {
  const decisions: QuotaDecision[] = []
  for (const { decision } of quotas) {
    if (decision !== null) decisions.push(decision)
  }
  return decisions
}
