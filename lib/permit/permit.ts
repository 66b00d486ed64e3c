import type { FastifyRequest } from 'fastify'
import { logFailure } from '../log.js'
import { Charge } from './charge.js'
import type { QuotaDecision } from './decision.js'
import type { Ruling, Verdict } from './decide.js'
import type { Ledger } from './ledger.js'
import { Place } from './place.js'
import { amountIn, invalidAmount, isAmount } from './question.js'

/** What a request used: a number of model tokens, an amount for each unit, or null if nothing is known. */
export type Amounts = number | Readonly<Record<string, number>> | null | undefined

/** What a request has of its quotas: the decisions on it, and what is to be settled when it ends. */
export class Permit {
  readonly request: FastifyRequest
  /** All decisions, also those of quotas that had room for a request that another one rejected. */
  readonly rulings: readonly Ruling[]
  readonly refusal: Ruling | null
  /** The published decisions: those of an admitted request, or the one that a request is refused for. */
  readonly decisions: readonly QuotaDecision[]
  readonly #ledger: Ledger
  readonly #charges: readonly Charge[]
  readonly #places: readonly Place[]
  #end: void | Promise<void> = undefined
  #hasEnded = false

  constructor (request: FastifyRequest, { rulings, refusal }: Verdict, ledger: Ledger) {
    this.request = request
    this.rulings = rulings
    this.refusal = refusal
    this.decisions = refusal === null ? rulings.map(({ decision }) => decision) : [refusal.decision]
    this.#ledger = ledger
    const isLasting = refusal === null && rulings.some(lasts)
    this.#charges = isLasting ? rulings.flatMap((ruling) => chargeOf(ruling, request) ?? []) : none
    this.#places = isLasting ? rulings.flatMap((ruling) => placeOf(ruling, request) ?? []) : none
  }

  /** Whether there is anything to settle when the request ends. */
  get isOpen (): boolean {
    return !this.#hasEnded && this.#charges.length + this.#places.length > 0
  }

  /** Reports what the request has cost. A promise that never rejects, only if a store returned one. */
  charge (amounts: Amounts): void | Promise<void> {
    if (amounts == null) return
    const { log } = this.request
    const isNumber = typeof amounts !== 'object'
    if (isNumber && this.refusal === null && !this.rulings.some(({ decision }) => decision.unit === 'tokens')) this.#ledger.warnOfUncountedTokens(this.request)
    return this.#ledger.all(Object.entries(isNumber ? { tokens: amounts } : amounts).map(([unit, amount]) => {
      if (!isAmount(amount)) return logFailure(log, invalidAmount(amount), 'what a request has cost was reported with an invalid amount, which is not counted', { unit })
      return this.#ledger.all(this.#charges.filter(({ quota }) => quota.unit === unit).map((charge) => charge.report(amount)))
    }))
  }

  /** Settles the costs and gives back the places, once. A promise that never rejects, only if a store returned one. */
  end (): void | Promise<void> {
    if (this.#hasEnded) return this.#end
    this.#hasEnded = true
    this.#ledger.ended(this)
    this.#end = this.#ledger.all([...this.#places.map((place) => place.close()), ...this.#charges.map((charge) => charge.close(unreportedOf(charge, this.request, this.#ledger)))])
    return this.#end
  }
}

const none: readonly never[] = Object.freeze([])

/** Whether a quota that has admitted is to be settled when the request ends. */
function lasts ({ acquisition, decision }: Ruling): boolean {
  return decision.unit !== 'requests' && acquisition?.admitted === true
}

function chargeOf (ruling: Ruling, request: FastifyRequest): Charge | null {
  const { quota, demand, acquisition } = ruling
  return !lasts(ruling) || quota === null || quota.longestWindow === null || demand === null || acquisition === null ? null : new Charge(quota, demand, acquisition, request)
}

function placeOf (ruling: Ruling, request: FastifyRequest): Place | null {
  const { quota, acquisition } = ruling
  return !lasts(ruling) || quota === null || quota.longestWindow !== null || acquisition === null ? null : new Place(quota, acquisition, request)
}

/** Returns what a request counts because nothing was reported; null for what it counted when it was admitted. */
function unreportedOf ({ quota: { name, unit, unreported }, isReported }: Charge, request: FastifyRequest, ledger: Ledger): number | null {
  if (isReported) return null
  ledger.warnOfUnreported(request, name, unit)
  if (unreported === undefined) return null
  return amountIn(unreported, request, (error) => {
    logFailure(request.log, error, 'unreported failed; the request counts what it counted when it was admitted', { quota: name })
  })
}
