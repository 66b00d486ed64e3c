import type { Caller } from '../caller/request-caller.js'
import type { Acquisition, Demand } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import { uncounted, type OutcomeWithoutStore, type QuotaDecision } from './decision.js'
import type { Quota } from './quota.js'
import type { Usage } from './usage.js'

/**
 * All that is known of one quota of one request. Each step of the decision adds what it finds out:
 * `prepare` the demand, or a decision without one; `ask` what the store answered; `decide` the
 * decision.
 */
export class QuotaOfRequest {
  readonly quota: Quota
  /** The operation that the request reaches; null if there is no request. */
  readonly operation: Operation | null
  /** The effective limit; 0 until it is known, and if there is none. */
  limit = 0
  /** Null until it is known, and if the quota is decided on without a caller. */
  caller: Caller | null = null
  /** What the store is asked for; null if the quota is decided on without its store. */
  demand: Demand | null = null
  /** What the store answered; null if it was not asked, or failed. */
  acquisition: Acquisition | null = null
  hasStoreFailed = false
  /** Null if the store was not asked, because another quota refuses the request. */
  decision: QuotaDecision | null = null
  /** Whether the decision refuses the request. */
  refuses = false
  /**
   * How long to wait until there can be room, in milliseconds; `Infinity` if there never will be. 0
   * unless the store rejects the request.
   */
  wait = 0
  /**
   * What an admitted request uses in a unit other than requests; null in any other quota, and if
   * this one has counted nothing.
   */
  usage: Usage | null = null

  constructor (quota: Quota, operation: Operation | null) {
    this.quota = quota
    this.operation = operation
  }

  /** Decides without an answer of the store. */
  decideWithout (outcome: OutcomeWithoutStore): void {
    this.decision = uncounted(this.quota, this.operation, this.limit, outcome)
    this.refuses = this.quota.isEnforced && outcome.outcome !== 'disabled'
  }

  /**
   * Whether the store has counted the request. Only of use if the request is admitted: of one that
   * another quota refuses, it says that this quota had room.
   */
  get isCounted (): boolean {
    return this.acquisition?.admitted === true
  }
}
