import type { FastifyRequest } from 'fastify'
import { logFailure } from '../log.js'
import { forAll, proceed } from '../promises.js'
import { invalidAmount, isAmount } from './amount.js'
import { Charge } from './charge.js'
import type { Refusal, Verdict } from './decide.js'
import { quotaDecisions, type QuotaDecision, type QuotaDecisionMessage } from './decision.js'
import type { Ledger } from './ledger.js'
import { Place } from './place.js'
import type { Ruling } from './ruling.js'

/** What a request used: a number of model tokens, an amount for each unit, or null if nothing is known. */
export type Amounts = number | Readonly<Record<string, number>> | null | undefined

/** What a request has of its quotas: the decisions on it, and what is to be settled when it ends. */
export class Permit {
  readonly request: FastifyRequest
  readonly decisions: readonly QuotaDecision[]
  /** Null if the request is admitted. */
  readonly refusal: Refusal | null
  /** Whether there is anything to settle. */
  isOpen: boolean
  readonly #rulings: readonly Ruling[]
  readonly #ledger: Ledger
  readonly #unsettled: (Charge | Place)[] = []
  #end: void | Promise<void> = undefined

  constructor (request: FastifyRequest, { rulings, decisions, refusal }: Verdict, ledger: Ledger) {
    this.request = request
    this.decisions = decisions
    this.refusal = refusal
    this.#rulings = rulings
    this.#ledger = ledger
    if (refusal === null) for (const ruling of rulings) this.#keep(ruling)
    this.isOpen = this.#unsettled.length > 0
  }

  #keep ({ quota, demand, acquisition }: Ruling): void {
    if (quota.unit === 'requests' || demand === null || acquisition?.admitted !== true) return
    const { request } = this
    this.#unsettled.push(demand.window === null ? new Place(quota, acquisition, request) : new Charge(quota, demand, acquisition, request))
  }

  /** The decisions of all quotas whose store decided, even if it had room and another one rejected the request; none if one has failed. */
  get decidedByStores (): QuotaDecision[] {
    if (this.refusal?.decision.outcome === 'unavailable') return []
    return this.#rulings.filter(({ acquisition }) => acquisition !== null).map(({ decision }) => decision)
  }

  /** Reports what the request has cost. A promise that never rejects, only if a store returned one. */
  charge (amounts: Amounts): void | Promise<void> {
    if (amounts == null) return
    if (typeof amounts === 'object') {
      return this.#ledger.track(forAll(Object.entries(amounts), ([unit, amount]) => this.#report(unit, amount)))
    }
    const countsTokens = this.#rulings.some(({ quota }) => quota.unit === 'tokens')
    if (this.refusal === null && !countsTokens) this.#ledger.warnOfUncountedTokens(this.request)
    return this.#ledger.track(this.#report('tokens', amounts))
  }

  #report (unit: string, amount: number): void | Promise<void> {
    if (isAmount(amount)) {
      return forAll(this.#unsettled, (each) => each instanceof Charge && each.quota.unit === unit ? each.report(amount) : undefined)
    }
    const message = 'what a request has cost was reported with an invalid amount, which is not counted'
    logFailure(this.request.log, invalidAmount(amount), message, { unit })
  }

  /** Settles the costs and releases the places, once. A promise that never rejects, only if a store returned one. */
  end (): void | Promise<void> {
    if (!this.isOpen) return this.#end
    this.isOpen = false
    this.#ledger.ended(this)
    this.#end = this.#ledger.track(forAll(this.#unsettled, (each) => each.close(this.#ledger)))
    return this.#end
  }
}

/** Creates the permit of a request when it is decided, and publishes its decisions. The permit is kept until everything is settled. */
export function issue (
  request: FastifyRequest, verdict: Verdict | Promise<Verdict>, ledger: Ledger, issued: (permit: Permit) => void
): Permit | Promise<Permit> {
  return ledger.track(proceed(verdict, (verdict) => {
    const permit = new Permit(request, verdict, ledger)
    if (permit.isOpen) ledger.opened(permit)
    for (const decision of permit.decisions) {
      if (quotaDecisions.hasSubscribers) quotaDecisions.publish({ request, decision } satisfies QuotaDecisionMessage)
      ledger.decisions.add(decision, request)
    }
    issued(permit)
    return permit
  }))
}
