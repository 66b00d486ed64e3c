import type { QuotaPlaceChange } from '../channels.js'
import { logFailure } from '../log.js'
import { required } from '../required.js'
import { amountsOfReport, type Amounts } from './amounts.js'
import { takeBack } from './ask.js'
import type { QuotaDecision } from './decision.js'
import type { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'
import { Usage } from './usage.js'

/** What a request has of its quotas: the decisions, and what is to be settled in the end. */
export class Permit {
  readonly requester: Requester
  /** The quotas of the request, in their order. */
  readonly quotas: readonly QuotaOfRequest[]
  /** The decision that refuses; null if the request is admitted. */
  readonly refusal: QuotaDecision | null
  /** Those of an admitted request, in the order of its quotas, or the one that refuses it. */
  readonly decisions: readonly QuotaDecision[]
  /** Whether the permit has places, or uses a unit, which must be settled when it ends. */
  readonly mustBeSettled: boolean
  /** Where `Closing` lists it. */
  position: number | undefined = undefined
  #settled: Promise<void> | undefined

  constructor (
    requester: Requester,
    quotas: readonly QuotaOfRequest[],
    refusal: QuotaDecision | null,
    decisions: readonly QuotaDecision[]
  ) {
    this.requester = requester
    this.quotas = quotas
    this.refusal = refusal
    this.decisions = decisions
    let mustBeSettled = false
    if (refusal === null) {
      for (const each of quotas) {
        // What counts requests is final.
        if (each.quota.unit === 'requests' || !each.isCounted) continue
        begin(each, requester)
        mustBeSettled = true
      }
    }
    this.mustBeSettled = mustBeSettled
    if (mustBeSettled) requester.server.closing.add(this)
  }

  get hasEnded (): boolean {
    return this.#settled !== undefined
  }

  /**
   * Returns what was granted of a unit, extensions included: the least of the enforced quotas that
   * count it. Null if the request was not admitted, or if none of them counts it.
   */
  granted (unit: string): number | null {
    if (this.refusal !== null) return null
    let least: number | null = null
    for (const { quota, acquisition, usage } of this.quotas) {
      if (quota.unit !== unit || !quota.isEnforced || acquisition === null) continue
      const granted = usage === null ? acquisition.granted : usage.granted
      least = least === null ? granted : Math.min(least, granted)
    }
    return least
  }

  /** Reports what was used, also after the permit has ended. Never rejects. */
  async charge (amounts: Amounts): Promise<void> {
    if (this.refusal !== null) return
    const { quotaLog, closing } = this.requester.server
    const reports: Promise<void>[] = []
    for (const [unit, amount] of amountsOfReport(amounts, quotaLog)) {
      for (const { quota, usage } of this.quotas) {
        if (quota.unit === unit && usage !== null) reports.push(usage.report(amount))
      }
    }
    const countsTokens = this.quotas.some(({ quota }) => quota.unit === 'tokens')
    if (typeof amounts === 'number' && !countsTokens) quotaLog.uncountedTokens()
    const reported = Promise.all(reports)
    closing.waitFor(reported)
    await reported
  }

  /** Settles what was used and frees the places, once. Never rejects. */
  end (): Promise<void> {
    this.#settled ??= this.#settleEach((each) =>
      each.usage === null ? this.#free(each) : each.usage.end()
    )
    return this.#settled
  }

  /**
   * Settles everything with 0, requests too, because the operation does not run: the host has
   * responded in the meantime. Never rejects.
   */
  cancel (): Promise<void> {
    this.#settled ??= this.#settleEach((each) => {
      if (each.quota.unit === 'requests') return this.#takeBack(each)
      return each.usage === null ? this.#free(each) : each.usage.cancel()
    })
    return this.#settled
  }

  async #settleEach (settle: (each: QuotaOfRequest) => Promise<void>): Promise<void> {
    if (this.refusal !== null) return
    const { closing } = this.requester.server
    closing.delete(this)
    const settling: Promise<void>[] = []
    for (const each of this.quotas) {
      const settled = settle(each)
      // Each by itself, because a server that closes waits as long as a store settles any of them.
      closing.waitFor(settled)
      settling.push(settled)
    }
    await Promise.all(settling)
  }

  /** Frees a place, if the quota has given one. */
  async #free (each: QuotaOfRequest): Promise<void> {
    const { quota, acquisition } = each
    if (acquisition === null || !hasPlace(each)) return
    // In this process, the request has ended, whatever the store does.
    publishPlace(each, this.requester, -1)
    try {
      await quota.store.settle?.(acquisition, 0)
    } catch (error) {
      const message = 'the quota store failed; a place may stay taken for 30 seconds'
      logFailure(this.requester.log, error, message, { quota: quota.name })
    }
  }

  async #takeBack ({ quota, acquisition, isCounted }: QuotaOfRequest): Promise<void> {
    if (acquisition === null || !isCounted) return
    await takeBack(quota.store, acquisition, this.requester)
  }
}

/** Begins what must be settled in the end: a place, or the use of a unit. */
function begin (each: QuotaOfRequest, requester: Requester): void {
  if (hasPlace(each)) {
    publishPlace(each, requester, 1)
    return
  }
  const { quota } = each
  const caller = required(each.caller, 'the caller of an admitted request')
  const demand = required(each.demand, 'the demand of an admitted request')
  const acquisition = required(each.acquisition, 'the acquisition of an admitted request')
  each.usage = new Usage({ quota, caller, demand, acquisition }, requester)
}

/** Whether the quota has given the request a place. */
function hasPlace ({ quota, isCounted }: QuotaOfRequest): boolean {
  return quota.longestWindow === null && isCounted
}

function publishPlace ({ quota }: QuotaOfRequest, { server }: Requester, change: 1 | -1): void {
  const { places } = server.channels
  if (!places.hasSubscribers) return
  places.publish({ quota: quota.name, change } satisfies QuotaPlaceChange)
}
