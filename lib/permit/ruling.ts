import type { FastifyRequest } from 'fastify'
import type { Caller } from '../caller/request-caller.js'
import { proceed } from '../promises.js'
import type { Acquisition, Demand } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import type { Match } from '../subject/request-matcher.js'
import { amountFor } from './amount.js'
import type { QuotaDecision } from './decision.js'
import { demandOn, timeLeft, type Quota } from './quota.js'

/** The costs that a handler gives, by quota. */
export type GivenCosts = ReadonlyMap<string, number>

/** One quota of a request: what its store is asked for, what the store has counted, and the decision. */
export class Ruling {
  readonly quota: Quota
  readonly operation: Operation
  limit = 0
  /** Null if it was not determined because the limit is 0. */
  caller: Caller | null = null
  /** Null if the quota is disabled, has no caller, or if something failed. */
  demand: Demand | null = null
  /** What the store returned; null if it was not asked or has failed. */
  acquisition: Acquisition | null = null
  /** Whether there is a decision. A quota that is not asked, because another one is known to have no room, has none. */
  isDecided = false
  #found: Caller | Promise<Caller> | null = null
  #decision: QuotaDecision | null = null

  constructor ({ quota, operation }: Match<Quota>) {
    this.quota = quota
    this.operation = operation
  }

  /** Determines the limit, the caller and the cost. A promise only if the host has returned one. */
  prepare (rulings: readonly Ruling[], request: FastifyRequest, costs: GivenCosts | undefined): void | Promise<void> {
    return proceed(this.quota.limitOf(request), (limit) => {
      this.limit = limit
      this.#found = limit === 0 ? null : this.#foundBy(rulings) ?? this.quota.callerOf(request)
      return proceed(this.#found, (caller) => {
        this.caller = caller
        this.demand = typeof caller === 'string' ? demandOf(this.quota, limit, caller, request, costs) : null
        this.isDecided = this.demand === null
      })
    })
  }

  /** Quotas with the same reader of authentications share the caller, whose key is then derived once. */
  #foundBy (rulings: readonly Ruling[]): Caller | Promise<Caller> | null {
    for (const ruling of rulings) if (ruling.#found !== null && ruling.quota.callerOf === this.quota.callerOf) return ruling.#found
    return null
  }

  /** @param acquisition Null if the store has failed. */
  decide (acquisition: Acquisition | null): void {
    this.acquisition = acquisition
    this.isDecided = true
  }

  get decision (): QuotaDecision {
    this.#decision ??= this.acquisition === null ? uncounted(this) : counted(this, this.acquisition)
    return this.#decision
  }

  get refuses (): boolean {
    return this.isDecided && this.quota.isEnforced && this.limit !== 0 && this.acquisition?.admitted !== true
  }
}

function demandOf (quota: Quota, limit: number, caller: string, request: FastifyRequest, costs: GivenCosts | undefined): Demand | null {
  const message = 'the cost of the request could not be determined; the request is not counted'
  const cost = amountFor(costs?.get(quota.name) ?? quota.cost, request, quota.name, message)
  return cost === null ? null : demandOn(quota, caller, limit, Math.min(cost, limit))
}

function counted ({ quota: { name, unit, window, isEnforced }, operation, limit, caller }: Ruling, acquisition: Acquisition): QuotaDecision {
  const { admitted, count, overflow } = acquisition
  return {
    outcome: admitted ? 'admitted' : 'rejected',
    quota: name,
    unit,
    window,
    reason: null,
    operation,
    enforced: isEnforced,
    limit,
    callerKey: String(caller),
    count,
    windowRemaining: timeLeft(acquisition),
    overflow
  }
}

function uncounted ({ quota: { name, unit, window, isEnforced }, operation, limit, caller, demand }: Ruling): QuotaDecision {
  const nothing = { callerKey: null, count: null, windowRemaining: null, overflow: false }
  const base = { quota: name, unit, window, operation, enforced: isEnforced, limit, ...nothing }
  if (caller === null) return { ...base, outcome: 'disabled', reason: null }
  if (typeof caller === 'string') return { ...base, outcome: 'unavailable', reason: demand === null ? 'cost' : 'store', callerKey: caller }
  if (caller.reason === null) return { ...base, outcome: 'unavailable', reason: 'authentication' }
  return { ...base, outcome: 'unauthenticated', reason: caller.reason }
}
