import { quotaSettlements, type QuotaSettlement } from '../../channels.js'
import { isNatural } from '../../option-checks.js'
import { required } from '../../required.js'
import { unlimited } from '../../store/counter.js'
import type { Acquisition } from '../../store/store.js'
import { wallClock } from '../../wall-clock.js'
import { noAmount } from '../amounts.js'
import { handedOver } from '../handing-over/hand-over.js'
import type { HandedOverHolding } from '../handing-over/handed-over.js'
import type { Holding } from './holding.js'
import type { Quota } from '../quota.js'
import type { QuotaOfRequest } from '../quota-of-request.js'
import type { Requester } from '../requester.js'
import { Tally } from './tally.js'

/**
 * What one permit is granted and uses in one quota of a unit other than requests, from its
 * admission until nothing more is reported (docs/rules.md, "Settlements").
 */
export class Usage implements Holding {
  readonly granted: number
  readonly isFinal = false
  readonly #each: QuotaOfRequest
  readonly #requester: Requester
  readonly #tally: Tally
  readonly #windowEnd: number
  #reported: number | null = null
  /** What counts once the permit has ended, if nothing was reported. */
  #assumed = 0
  #hasEnded = false
  /** A report will come, maybe after the permit has ended. */
  #isReportExpected = false
  /** The `used` of the latest message; null before the first one. */
  #published: number | null = null

  constructor (each: QuotaOfRequest, requester: Requester) {
    const acquisition = required(each.acquisition, 'the acquisition of an admission')
    this.granted = acquisition.granted
    this.#each = each
    this.#requester = requester
    this.#tally = new Tally(each, requester)
    this.#windowEnd = windowEndOf(acquisition)
  }

  report (amount: number): Promise<void> {
    this.#reported = Math.min((this.#reported ?? 0) + amount, unlimited)
    return this.#apply()
  }

  expectReport (): void {
    this.#isReportExpected = true
  }

  /**
   * Ends the permit: from now on it counts what was reported, or if nothing was, what `unreported`
   * says, or else what was granted.
   */
  end (): Promise<void> {
    if (this.#reported === null) this.#assumed = this.#usedWithoutReport()
    this.#hasEnded = true
    return this.#apply()
  }

  get handedOver (): HandedOverHolding | null {
    return handedOver(this.#each, this.#reported, this.#windowEnd)
  }

  /** What it counts stays counted, and is not held any more. */
  handOver (): Promise<void> {
    return this.#tally.bringTo(() => ({ used: this.#due, isHeld: false }))
  }

  /** It has used nothing but what was reported. */
  cancel (): Promise<void> {
    this.#hasEnded = true
    return this.#apply()
  }

  #usedWithoutReport (): number {
    if (this.#isReportExpected) return this.granted
    return usedWithoutReport(this.#each.quota, this.granted, this.#requester)
  }

  /** What the request counts now. */
  get #due (): number {
    const used = this.#reported ?? this.#assumed
    return this.#hasEnded ? used : Math.max(this.granted, used)
  }

  /**
   * Whether what was granted is still an estimate: until the permit ends, or as much is reported,
   * after which its end cannot lower the count.
   */
  get #isHeld (): boolean {
    return !this.#hasEnded && (this.#reported === null || this.#reported < this.granted)
  }

  /** Makes the store count what is due, and publishes it if the permit has ended. */
  #apply (): Promise<void> {
    let settled: Pick<QuotaSettlement, 'used' | 'reported'> | null = null
    return this.#tally.bringTo(
      () => {
        // A report that comes after this has been read has a message of its own.
        if (this.#hasEnded) settled = { used: this.#due, reported: this.#reported !== null }
        return { used: this.#due, isHeld: this.#isHeld }
      },
      () => {
        if (settled !== null) this.#publish(settled)
      }
    )
  }

  #publish ({ used, reported }: Pick<QuotaSettlement, 'used' | 'reported'>): void {
    if (used === this.#published) return
    const before = this.#published ?? 0
    this.#published = used
    const { quota, demand } = this.#each
    publishSettlement(quota, this.#requester, {
      callerKey: required(demand, 'the demand of an admission').callerKey,
      granted: this.granted,
      used,
      before,
      reported,
      windowEnd: this.#windowEnd,
      failed: this.#tally.hasStoreFailed
    })
  }
}

/**
 * Returns what a permit counts in the end if nothing was reported: what `unreported` says, or else
 * what it was granted. If nothing says it, or if that fails, it is logged.
 */
export function usedWithoutReport (
  { unreported, name, unit }: Quota,
  granted: number,
  { request, server, log }: Requester
): number {
  if (unreported === undefined) {
    server.quotaLog.unreported(log, name, unit)
    return granted
  }
  if (typeof unreported === 'number') return unreported
  try {
    const amount: unknown = unreported(request)
    if (isNatural(amount)) return amount
    throw noAmount(amount)
  } catch (error) {
    server.quotaLog.unreportedFailed(error, name, log)
    return granted
  }
}

/** What differs between the messages of one permit and quota. */
type Settlement = Omit<QuotaSettlement, 'server' | 'request' | 'reference' | 'quota' | 'unit'>

/** Publishes what a permit is counted in a quota from now on. */
export function publishSettlement (
  { name, unit }: Quota,
  { request, reference, server }: Requester,
  settlement: Settlement
): void {
  if (!quotaSettlements.hasSubscribers) return
  quotaSettlements.publish({
    server: server.server,
    request,
    reference,
    quota: name,
    unit,
    ...settlement
  } satisfies QuotaSettlement)
}

/** Returns when the window of an acquisition ends, in milliseconds since the epoch. */
function windowEndOf ({ end, windowRemaining }: Acquisition): number {
  if (end !== undefined) return end
  return Math.round(wallClock() + required(windowRemaining, 'the end of a window'))
}
