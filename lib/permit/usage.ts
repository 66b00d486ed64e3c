import { quotaSettlements, type QuotaSettlement } from '../channels.js'
import type { Caller } from '../caller/request-caller.js'
import { format } from '../errors.js'
import { logFailure } from '../log.js'
import { isNatural } from '../option-checks.js'
import { ignoreRejection } from '../promises.js'
import { required } from '../required.js'
import { unlimited } from '../store/counter.js'
import { acquireFrom } from '../store/checks.js'
import type { Acquisition, Demand } from '../store/store.js'
import { wallClock } from '../wall-clock.js'
import { CountedParts, type Part } from './counted-parts.js'
import type { Quota } from './quota.js'
import type { Requester } from './requester.js'

/** What the admission counted: the demand of a caller on a quota, and what the store returned. */
interface Admitted {
  readonly quota: Quota
  readonly caller: Caller
  readonly demand: Demand
  readonly acquisition: Acquisition
}

/**
 * What one permit is granted and uses in one quota of a unit other than requests, from its
 * admission until nothing more is reported (docs/rules.md, "Costs").
 */
export class Usage {
  readonly caller: Caller
  readonly #quota: Quota
  readonly #demand: Demand
  readonly #requester: Requester
  readonly #windowEnd: number
  readonly #parts = new CountedParts()
  #granted = 0
  #reported: number | null = null
  /** What counts once the permit has ended, if nothing was reported. */
  #assumed = 0
  #hasEnded = false
  /** The `used` of the latest message; null before the first one. */
  #published: number | null = null
  /** Whether the store has failed once, so that its counter may differ. */
  #hasStoreFailed = false
  // Changes are applied one after another, in the order of the reports.
  #applying: Promise<void> = Promise.resolve()

  constructor ({ quota, caller, demand, acquisition }: Admitted, requester: Requester) {
    this.caller = caller
    this.#quota = quota
    this.#demand = demand
    this.#requester = requester
    this.#windowEnd = windowEndOf(acquisition)
    this.#addGrant(acquisition)
  }

  /** What was granted, extensions included. */
  get granted (): number {
    return this.#granted
  }

  /** Adds what an extension was granted. Never rejects. */
  extend (acquisition: Acquisition): Promise<void> {
    this.#addGrant(acquisition)
    return this.#apply()
  }

  /** Adds to what was reported. Never rejects. */
  report (amount: number): Promise<void> {
    this.#reported = Math.min((this.#reported ?? 0) + amount, unlimited)
    return this.#apply()
  }

  /**
   * Ends the permit: from now on it counts what was reported, or if nothing was, what `unreported`
   * says, or else what was granted, and a warning is logged. Never rejects.
   */
  end (): Promise<void> {
    if (this.#reported === null) {
      const { server, log } = this.#requester
      server.quotaLog.unreported(log, this.#quota.name, this.#quota.unit)
      this.#assumed = this.#readUnreported()
    }
    this.#hasEnded = true
    return this.#apply()
  }

  /** Ends a permit whose operation does not run: it has used nothing. Never rejects. */
  cancel (): Promise<void> {
    this.#hasEnded = true
    return this.#apply()
  }

  #addGrant (acquisition: Acquisition): void {
    this.#parts.addGrant(acquisition)
    this.#granted = Math.min(this.#granted + acquisition.granted, unlimited)
  }

  #readUnreported (): number {
    const { unreported, name } = this.#quota
    if (unreported === undefined) return this.#granted
    if (typeof unreported === 'number') return unreported
    // There is no request that the function could read.
    if (this.#requester.request === null) return this.#granted
    try {
      const amount: unknown = unreported(this.#requester.request)
      if (isNatural(amount)) return amount
      ignoreRejection(amount)
      const got = format(amount)
      throw new RangeError(`an amount must be a safe integer of at least 0; it got ${got}`)
    } catch (error) {
      const message = 'unreported failed; the request counts what it was granted'
      logFailure(this.#requester.log, error, message, { quota: name })
      return this.#granted
    }
  }

  /** What the request counts now. */
  get #due (): number {
    const used = this.#reported ?? this.#assumed
    return this.#hasEnded ? used : Math.max(this.#granted, used)
  }

  /** Whether the grants need hold nothing any more: only a later report can still lower them. */
  get #holdsNothing (): boolean {
    return this.#hasEnded || (this.#reported !== null && this.#reported >= this.#granted)
  }

  /** Makes the store count what is due, and publishes it if the permit has ended. */
  #apply (): Promise<void> {
    this.#applying = this.#applying.then(() => this.#applyDue())
    return this.#applying
  }

  async #applyDue (): Promise<void> {
    let due = this.#due
    while (due > this.#parts.total) {
      await this.#countBeyond(due - this.#parts.total)
      // Meanwhile, an extension can have been granted, of which nothing is to be lowered.
      due = this.#due
    }
    // A later report is published with its own message, even if it comes while the store is asked.
    const settled = this.#hasEnded ? { used: due, reported: this.#reported !== null } : null
    const changed = this.#parts.lowerTo(due)
    if (this.#holdsNothing) {
      for (const grant of this.#parts.release()) changed.add(grant)
    }
    await Promise.all([...changed].map((part) => this.#settle(part)))
    if (settled !== null) this.#publish(settled)
  }

  /** After a failure, the store may have applied it, so it is not asked again. */
  async #settle (part: Part): Promise<void> {
    try {
      await this.#quota.store.settle?.(part.acquisition, part.counts)
    } catch (error) {
      this.#noteFailure(error)
    }
  }

  /** Counts what was used beyond what is counted, in the window that is open now. */
  async #countBeyond (amount: number): Promise<void> {
    this.#parts.expectBeyond(amount)
    try {
      const [acquisition] = await acquireFrom(this.#quota.store, [this.#demandOf(amount)])
      this.#parts.addBeyond(required(acquisition, 'the acquisition of what was used'), amount)
    } catch (error) {
      // Whether it was counted is unknown. It is neither counted again nor lowered.
      this.#noteFailure(error)
    }
  }

  /** Returns the demand of what was used beyond, in the window that is open now. */
  #demandOf (amount: number): Demand {
    const { start, end } = this.#dayNow()
    return {
      ...this.#demand,
      limit: unlimited,
      least: amount,
      most: amount,
      isEstimate: false,
      start,
      end
    }
  }

  /** Returns the caller's day, week or month, now; that of the admission if it fails. */
  #dayNow (): Pick<Demand, 'start' | 'end'> {
    const { windowNow } = this.#quota
    if (windowNow === null) return this.#demand
    try {
      return windowNow(this.caller)
    } catch (error) {
      const message =
        "the caller's time zone could not be determined; what was used beyond the grant counts " +
        'in the day, week or month of the admission'
      logFailure(this.#requester.log, error, message, { quota: this.#quota.name })
      return this.#demand
    }
  }

  #noteFailure (error: unknown): void {
    this.#hasStoreFailed = true
    const { name, unit, counters } = this.#quota
    const used = this.#due
    const message = 'the quota store failed; what the request counts may be wrong'
    logFailure(this.#requester.log, error, message, { quota: name, unit, counters, used })
  }

  #publish ({ used, reported }: Pick<QuotaSettlement, 'used' | 'reported'>): void {
    if (used === this.#published) return
    const before = this.#published ?? 0
    this.#published = used
    const { request, server } = this.#requester
    const message = {
      request,
      callerKey: this.#demand.callerKey,
      quota: this.#quota.name,
      unit: this.#quota.unit,
      granted: this.#granted,
      used,
      before,
      reported,
      windowEnd: this.#windowEnd,
      failed: this.#hasStoreFailed
    } satisfies QuotaSettlement
    quotaSettlements.publish(message)
    server.channels.settlements.publish(message)
  }
}

/** Returns when the window of an acquisition ends, in milliseconds since the epoch. */
function windowEndOf ({ end, windowRemaining }: Acquisition): number {
  if (end !== undefined) return end
  return Math.round(wallClock() + required(windowRemaining, 'the end of a window'))
}
