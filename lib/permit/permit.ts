import type { FastifyRequest } from 'fastify'
import { forAll } from '../promises.js'
import { amountFor } from './amount.js'
import { Charge } from './charge.js'
import type { QuotaDecision } from './decision.js'
import type { Ledger } from './ledger.js'
import type { Quota } from './quota.js'
import { decisionsOf, type Ruling } from './ruling.js'

/**
 * What a request used: a number of model tokens, an amount for each unit, or null if nothing is
 * known.
 */
export type Amounts = number | Readonly<Record<string, number>> | null | undefined

/** A decision that a request is refused for. */
export interface Refusal {
  /** Null if the mark of the route failed. */
  readonly quota: Quota | null
  readonly decision: QuotaDecision
}

/**
 * What a request has of its quotas: the decisions on it, and what is to be settled when it ends.
 */
export class Permit {
  /** Whether there is anything to settle. */
  isOpen: boolean
  readonly #rulings: readonly Ruling[]
  readonly #ledger: Ledger
  readonly #charges: Charge[] = []
  #end: void | Promise<void> = undefined

  /**
   * @param rulings One for each quota, in their order.
   * @param refusal Null if the request is admitted.
   * @param decisions Those of an admitted request, in the order of its quotas, or the one that it
   *   is refused for.
   */
  constructor (
    readonly request: FastifyRequest,
    ledger: Ledger,
    rulings: readonly Ruling[],
    readonly refusal: Refusal | null,
    readonly decisions: readonly QuotaDecision[]
  ) {
    this.#rulings = rulings
    this.#ledger = ledger
    if (refusal === null) {
      for (const { quota, demand, acquisition } of rulings) {
        const isSettled =
          quota.unit === 'requests' || demand === null || acquisition?.admitted !== true
        if (!isSettled) this.#charges.push(new Charge(quota, demand, acquisition, request))
      }
    }
    this.isOpen = this.#charges.length > 0
  }

  /**
   * The decisions of all quotas whose store decided, even if it had room and another one rejected
   * the request; none if one has failed.
   */
  get decidedByStores (): QuotaDecision[] {
    if (this.refusal?.decision.outcome === 'unavailable') return []
    return decisionsOf(this.#rulings.filter(({ acquisition }) => acquisition !== null))
  }

  /**
   * Reports what the request has cost. A promise that never rejects, only if a store returned one.
   */
  charge (amounts: Amounts): void | Promise<void> {
    if (amounts == null) return
    const countsTokens = this.#rulings.some(({ quota }) => quota.unit === 'tokens')
    if (typeof amounts === 'number' && this.refusal === null && !countsTokens) {
      this.#ledger.log.uncountedTokens(this.request)
    }
    const reports = Object.entries(typeof amounts === 'object' ? amounts : { tokens: amounts })
    return this.#ledger.track(forAll(reports, ([unit, amount]) => this.#report(unit, amount)))
  }

  #report (unit: string, amount: number): void | Promise<void> {
    const message =
      'what a request has cost was reported with an invalid amount, which is not counted'
    const reported = amountFor(() => amount, this.request, message, { unit })
    if (reported === null) return
    const charges = this.#charges.filter(
      ({ quota }) => quota.unit === unit && quota.longestWindow !== null
    )
    return forAll(charges, (charge) => charge.report(reported))
  }

  /**
   * Settles the costs and gives back the places, once. A promise that never rejects, only if a
   * store returned one.
   */
  end (): void | Promise<void> {
    if (!this.isOpen) return this.#end
    this.isOpen = false
    this.#ledger.open.delete(this)
    this.#end = this.#ledger.track(
      forAll(this.#charges, (charge) => charge.close(this.#ledger.log))
    )
    return this.#end
  }
}
