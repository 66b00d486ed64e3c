import { quotaSettlements, type QuotaSettlement } from '../channels.js'
import { formatType } from '../errors.js'
import { isNatural } from '../option-checks.js'
import { ignoreRejection } from '../promises.js'
import { required } from '../required.js'
import { unlimited } from '../store/counter.js'
import type { Acquisition } from '../store/store.js'
import { wallClock } from '../wall-clock.js'
import type { Holding } from './holding.js'
import type { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'
import { Tally } from './tally.js'

/**
 * What one permit is granted and uses in one quota of a unit other than requests, from its
 * admission until nothing more is reported (docs/rules.md, "Costs").
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
    if (this.#reported === null) this.#assumed = this.#readUnreported()
    this.#hasEnded = true
    return this.#apply()
  }

  /** It has used nothing but what was reported. */
  cancel (): Promise<void> {
    this.#hasEnded = true
    return this.#apply()
  }

  #readUnreported (): number {
    if (this.#isReportExpected) return this.granted
    const { unreported, name, unit } = this.#each.quota
    const { request, server, log } = this.#requester
    if (unreported === undefined) {
      server.quotaLog.unreported(log, name, unit)
      return this.granted
    }
    if (typeof unreported === 'number') return unreported
    try {
      const amount: unknown = unreported(request)
      if (isNatural(amount)) return amount
      ignoreRejection(amount)
      const got = formatType(amount)
      throw new RangeError(`an amount must be a safe integer of at least 0; it got ${got}`)
    } catch (error) {
      server.quotaLog.unreportedFailed(error, name, log)
      return this.granted
    }
  }

  /** What the request counts now. */
  get #due (): number {
    const used = this.#reported ?? this.#assumed
    return this.#hasEnded ? used : Math.max(this.granted, used)
  }

  /** Whether the grant may be lowered before the permit ends; later, only a late report does. */
  get #isHeld (): boolean {
    return !this.#hasEnded && (this.#reported === null || this.#reported < this.granted)
  }

  /** Makes the store count what is due, and publishes it if the permit has ended. */
  #apply (): Promise<void> {
    let settled: Pick<QuotaSettlement, 'used' | 'reported'> | null = null
    return this.#tally.bringTo(
      () => {
        // A later report is published with a message of its own, even if it comes while the store
        // is asked.
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
    if (!quotaSettlements.hasSubscribers) return
    const { quota, demand, reference } = this.#each
    const { request, server } = this.#requester
    quotaSettlements.publish({
      server: server.server,
      request,
      reference,
      callerKey: required(demand, 'the demand of an admission').callerKey,
      quota: quota.name,
      unit: quota.unit,
      granted: this.granted,
      used,
      before,
      reported,
      windowEnd: this.#windowEnd,
      failed: this.#tally.hasStoreFailed
    } satisfies QuotaSettlement)
  }
}

/** Returns when the window of an acquisition ends, in milliseconds since the epoch. */
function windowEndOf ({ end, windowRemaining }: Acquisition): number {
  if (end !== undefined) return end
  return Math.round(wallClock() + required(windowRemaining, 'the end of a window'))
}
