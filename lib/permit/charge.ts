import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import { logFailure } from '../log.js'
import { attempt, proceed, promised } from '../promises.js'
import { unlimited } from '../store/counter.js'
import { acquireFrom, type Acquisition, type Demand } from '../store/store.js'
import { amountFor } from './amount.js'
import type { QuotaLog } from './quota-log.js'
import { demandOn, type Quota } from './quota.js'

/** A message that the store of a quota was told what a request counts after it was admitted. */
export interface QuotaCharge {
  readonly request: FastifyRequest
  /** The name of the quota. */
  readonly quota: string
  readonly unit: string
  /** What was added; negative if it was released. */
  readonly amount: number
  /** Whether the store failed, so that it is unknown whether the amount was counted. */
  readonly failed: boolean
}

/** The channel on which each `QuotaCharge` is published. */
export const quotaCharges = channel('fastify-llm-quota:charge')

/**
 * A part of the cost, and the acquisition that counted it; none if that failed, so that it is
 * unknown whether it was counted.
 */
interface Counted {
  acquisition: Acquisition | null | undefined
  amount: number
}

/**
 * What one request counts in one quota, a cost or a place, from its admission until nothing more is
 * reported (docs/rules.md, "Costs").
 */
export class Charge {
  readonly #demand: Demand
  readonly #request: FastifyRequest
  readonly #counted: Counted[]
  #reported: number | null = null
  /** What the request counts if nothing is reported. */
  #assumed: number
  #charged: number
  #isOver = false
  // The steps of the store run one after another, since one can give back what the previous one has
  // counted.
  #step: void | Promise<void> = undefined

  constructor (
    readonly quota: Quota,
    demand: Demand,
    acquisition: Acquisition,
    request: FastifyRequest
  ) {
    this.#demand = demand
    this.#request = request
    this.#counted = [{ acquisition, amount: demand.cost }]
    this.#assumed = demand.cost
    this.#charged = demand.cost
  }

  /** Adds to what was reported. A promise only if the store returned one. It never rejects. */
  report (amount: number): void | Promise<void> {
    this.#reported = Math.min((this.#reported ?? 0) + amount, unlimited)
    return this.#settle()
  }

  /**
   * Ends the request: from now on it counts what was reported, or if nothing was, `unreported` or
   * what it counted when it was admitted. A place is given back.
   */
  close (log: QuotaLog): void | Promise<void> {
    this.#isOver = true
    if (this.#demand.window === null) {
      this.#assumed = 0
    } else if (this.#reported === null) {
      const { name: quota, unit, unreported } = this.quota
      log.unreported(this.#request, quota, unit)
      const message = 'unreported failed; the request counts what it counted when it was admitted'
      this.#assumed =
        amountFor(unreported ?? this.#assumed, this.#request, message, { quota }) ?? this.#assumed
    }
    return this.#settle()
  }

  /**
   * Counts or gives back the difference between what the request costs now and what was charged.
   */
  #settle (): void | Promise<void> {
    const due = this.#isOver
      ? (this.#reported ?? this.#assumed)
      : Math.max(this.#assumed, Number(this.#reported))
    const amount = due - this.#charged
    this.#charged = due
    if (amount !== 0) this.#step = proceed(this.#step, () => this.#run(amount))
    return this.#step
  }

  #run (amount: number): void | Promise<void> {
    const { name: quota, unit } = this.quota
    const publish = (failed: boolean): void => {
      if (quotaCharges.hasSubscribers) {
        quotaCharges.publish({
          request: this.#request,
          quota,
          unit,
          amount,
          failed
        } satisfies QuotaCharge)
      }
    }
    const isPlace = this.#demand.window === null
    // In this process, the request has ended, whatever the store does.
    if (isPlace) publish(false)
    const run = () =>
      proceed(amount > 0 ? this.#add(amount) : this.#giveBack(-amount), () => {
        if (!isPlace) publish(false)
      })
    return attempt<void>(run, (error) => {
      logFailure(
        this.#request.log,
        error,
        'the quota store failed; what the request counts may be wrong',
        { quota, unit, amount }
      )
      if (!isPlace) publish(true)
    })
  }

  #add (amount: number): void | Promise<void> {
    const demands = [demandOn(this.quota, this.#demand.callerKey, unlimited, amount)]
    const counted: Counted = { acquisition: null, amount }
    this.#counted.push(counted)
    return proceed(acquireFrom(this.quota.store, demands), (acquisitions) => {
      counted.acquisition = acquisitions[0]
    })
  }

  /**
   * Gives back what was counted last first, so that the estimate at the admission is kept as long
   * as possible.
   */
  #giveBack (amount: number): void | Promise<void> {
    const last = this.#counted.at(-1)
    if (last === undefined || amount === 0) return
    const given = Math.min(amount, last.amount)
    last.amount -= given
    if (last.amount === 0) this.#counted.pop()
    const released =
      last.acquisition == null ? undefined : this.quota.store.release?.(last.acquisition, given)
    return proceed(promised(released), () => this.#giveBack(amount - given))
  }
}
