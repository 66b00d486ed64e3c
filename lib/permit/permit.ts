import { quotaPlaces, type QuotaPlaceChange } from '../channels.js'
import { logFailure } from '../log.js'
import type { Acquisition } from '../store/store.js'
import { amountsOfReport, type Amounts } from './amounts.js'
import type { QuotaDecision } from './decision.js'
import type { Evaluation, Refusal } from './decide.js'
import type { OpenPermits } from './open-permits.js'
import type { Demanded } from './prepare.js'
import type { Requester } from './requester.js'
import { Usage } from './usage.js'

/** A place of a concurrent request. */
interface Place {
  readonly prepared: Demanded
  readonly acquisition: Acquisition
}

/** What a requester has of its quotas: the decisions, and what is to be settled in the end. */
export class Permit {
  readonly requester: Requester
  /** One for each quota, in their order. */
  readonly evaluations: readonly Evaluation[]
  /** Null if the request is admitted. */
  readonly refusal: Refusal | null
  /** Those of an admitted request, in the order of its quotas, or the one that refuses it. */
  readonly decisions: readonly QuotaDecision[]
  /** What it uses of quotas in another unit than requests. */
  readonly usages: readonly Usage[]
  readonly #places: readonly Place[]
  readonly #open: OpenPermits
  #settled: Promise<void> | undefined

  constructor (
    requester: Requester,
    evaluations: readonly Evaluation[],
    refusal: Refusal | null,
    decisions: readonly QuotaDecision[],
    open: OpenPermits
  ) {
    this.requester = requester
    this.evaluations = evaluations
    this.refusal = refusal
    this.decisions = decisions
    this.#open = open
    const usages: Usage[] = []
    const places: Place[] = []
    for (const { prepared, acquisition } of refusal === null ? evaluations : []) {
      if (prepared.demand === null || acquisition?.admitted !== true) continue
      const { unit } = prepared.quota
      // Requests that were counted are not settled.
      if (unit === 'requests') continue
      if (unit === 'concurrent-requests') places.push({ prepared, acquisition })
      else usages.push(new Usage(prepared, acquisition, requester))
    }
    this.usages = usages
    this.#places = places
    for (const place of places) publishPlace(place, requester, 1)
    if (this.isOpen) open.add(this)
  }

  /** Whether there is anything to settle when the permit ends. */
  get isOpen (): boolean {
    return !this.hasEnded && this.usages.length + this.#places.length > 0
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
    for (const { prepared, acquisition } of this.evaluations) {
      const { quota } = prepared
      if (quota.unit !== unit || !quota.isEnforced || acquisition === null) continue
      const usage = this.usages.find((each) => each.prepared === prepared)
      const granted = usage?.granted ?? acquisition.granted
      least = least === null ? granted : Math.min(least, granted)
    }
    return least
  }

  /** Reports what was used, also after the permit has ended. Never rejects. */
  async charge (amounts: Amounts): Promise<void> {
    if (this.refusal !== null) return
    const { log } = this.#open
    const reports: Promise<void>[] = []
    for (const [unit, amount] of amountsOfReport(amounts, log)) {
      for (const usage of this.usages) {
        if (usage.prepared.quota.unit === unit) reports.push(usage.report(amount))
      }
    }
    if (typeof amounts === 'number' && !this.#counts('tokens')) log.uncountedTokens()
    const reported = Promise.all(reports)
    this.#open.wait(reported)
    await reported
  }

  #counts (unit: string): boolean {
    return this.evaluations.some(({ prepared }) => prepared.quota.unit === unit)
  }

  /** Ends a permit that the host has not ended, and warns of what it has not reported. */
  expire (): Promise<void> {
    if (this.hasEnded) return this.end()
    for (const { prepared, isReported } of this.usages) {
      const { name, unit } = prepared.quota
      if (!isReported) this.#open.log.unreported(this.requester.log, name, unit)
    }
    return this.end()
  }

  /** Settles what was used and releases the places, once. Never rejects. */
  end (): Promise<void> {
    this.#settled ??= this.#settle()
    return this.#settled
  }

  async #settle (): Promise<void> {
    this.#open.delete(this)
    const steps: Promise<void>[] = this.usages.map((usage) => usage.end())
    for (const place of this.#places) steps.push(this.#release(place))
    const settled = Promise.all(steps)
    this.#open.wait(settled)
    await settled
  }

  async #release (place: Place): Promise<void> {
    const { quota } = place.prepared
    // In this process, the request has ended, whatever the store does.
    publishPlace(place, this.requester, -1)
    try {
      await quota.store.settle?.(place.acquisition, 0, null)
    } catch (error) {
      const message = 'the quota store failed; a place may be taken until its lease ends'
      logFailure(this.requester.log, error, message, { quota: quota.name })
    }
  }
}

function publishPlace ({ prepared }: Place, { request }: Requester, change: 1 | -1): void {
  if (!quotaPlaces.hasSubscribers) return
  const quota = prepared.quota.name
  quotaPlaces.publish({ request, quota, change } satisfies QuotaPlaceChange)
}
