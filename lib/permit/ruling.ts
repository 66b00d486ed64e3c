import type { FastifyRequest } from 'fastify'
import type { Caller, Unidentified } from '../caller/caller-key.js'
import { proceed } from '../promises.js'
import type { Acquisition, Demand } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import { amountFor } from './amount.js'
import type {
  DisabledDecision,
  QuotaDecision,
  UnauthenticatedDecision,
  UnavailableDecision
} from './decision.js'
import { demandOn, timeLeft, type Quota } from './quota.js'

/** The costs that a handler gives, by quota. */
export type GivenCosts = ReadonlyMap<string, number>

type Outcome<Decision extends QuotaDecision> = Pick<Decision, 'outcome' | 'reason' | 'callerKey'>
type Uncounted =
  Outcome<DisabledDecision> | Outcome<UnauthenticatedDecision> | Outcome<UnavailableDecision>

function withoutCaller ({ reason }: Unidentified): Uncounted {
  if (reason === null) return { outcome: 'unavailable', reason: 'authentication', callerKey: null }
  return { outcome: 'unauthenticated', reason, callerKey: null }
}

/**
 * One quota of a request: what its store is asked for, what the store has counted, and the
 * decision.
 */
export class Ruling {
  /**
   * Null if no store is asked, because the quota is disabled, has no caller, or something failed.
   */
  demand: Demand | null = null
  /** What the store returned; null if it was not asked or has failed. */
  acquisition: Acquisition | null = null
  /**
   * Null if the store was not asked yet, or if it was not asked because another quota is known to
   * have no room.
   */
  decision: QuotaDecision | null = null
  #caller: Caller | Promise<Caller> | null = null

  constructor (
    readonly quota: Quota,
    readonly operation: Operation
  ) {}

  /** Determines the limit, the caller and the cost. A promise only if the host has returned one. */
  prepare (
    rulings: readonly Ruling[],
    request: FastifyRequest,
    costs: GivenCosts | undefined
  ): void | Promise<void> {
    const { quota } = this
    return proceed(quota.limitOf(request), (limit) => {
      if (limit === 0) return this.#leave(0, { outcome: 'disabled', reason: null, callerKey: null })
      this.#caller = this.#callerAmong(rulings) ?? quota.callerOf(request)
      return proceed(this.#caller, (caller) => {
        if (typeof caller !== 'string') return this.#leave(limit, withoutCaller(caller))
        const message =
          'the cost of the request could not be determined; the request is not counted'
        const cost = amountFor(costs?.get(quota.name) ?? quota.cost, request, message, {
          quota: quota.name
        })
        if (cost === null) {
          this.#leave(limit, { outcome: 'unavailable', reason: 'cost', callerKey: caller })
        } else this.demand = demandOn(quota, caller, limit, Math.min(cost, limit))
      })
    })
  }

  /**
   * Quotas with the same reader of authentications share the caller, whose key is then derived
   * once.
   */
  #callerAmong (rulings: readonly Ruling[]): Caller | Promise<Caller> | null {
    for (const ruling of rulings) {
      if (ruling.#caller !== null && ruling.quota.callerOf === this.quota.callerOf) {
        return ruling.#caller
      }
    }
    return null
  }

  /** Decides by what the store returned; null if it has failed. */
  decide ({ callerKey, limit }: Demand, acquisition: Acquisition | null): void {
    if (acquisition === null) {
      return this.#leave(limit, { outcome: 'unavailable', reason: 'store', callerKey })
    }
    this.acquisition = acquisition
    const {
      quota: { name: quota, unit, window, isEnforced: enforced },
      operation
    } = this
    const { count, overflow } = acquisition
    const outcome = acquisition.admitted ? 'admitted' : 'rejected'
    const windowRemaining = timeLeft(acquisition)
    // Without a spread, which is slow.
    this.decision = {
      outcome,
      quota,
      unit,
      window,
      reason: null,
      operation,
      enforced,
      limit,
      callerKey,
      count,
      windowRemaining,
      overflow
    }
  }

  #leave (limit: number, outcome: Uncounted): void {
    const {
      quota: { name: quota, unit, window, isEnforced: enforced },
      operation
    } = this
    this.decision = {
      quota,
      unit,
      window,
      operation,
      enforced,
      limit,
      ...outcome,
      count: null,
      windowRemaining: null,
      overflow: false
    }
  }
}

/** Returns the decisions that were made, in the order of the quotas. */
export function decisionsOf (rulings: readonly Ruling[]): QuotaDecision[] {
  const decisions: QuotaDecision[] = []
  for (const { decision } of rulings) if (decision !== null) decisions.push(decision)
  return decisions
}
