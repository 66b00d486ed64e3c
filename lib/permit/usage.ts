import { quotaSettlements, type QuotaSettlement } from '../channels.js'
import { format } from '../errors.js'
import { logFailure } from '../log.js'
import { isNatural } from '../option-checks.js'
import { ignoreRejection } from '../promises.js'
import { required } from '../required.js'
import { unlimited } from '../store/counter.js'
import type { Acquisition } from '../store/store.js'
import { wallClock } from '../wall-clock.js'
import { timeLeft } from './demand.js'
import type { Demanded } from './prepare.js'
import { requestFor, type Requester } from './requester.js'

/**
 * How many grants of a permit are settled at the same time. A store on a server settles them in one
 * call, and the permits that end with a server must not exceed what can wait there.
 */
const mostAtOnce = 16

/** A part of what a permit was granted: by the admission, or by an extension. */
interface Grant {
  readonly acquisition: Acquisition
  readonly previous: Grant | null
  /** What all previous ones were granted. */
  readonly grantedBefore: number
  /** What the store counts for it. */
  counted: number
  /** Whether it still holds what it counts. */
  isHeld: boolean
}

/**
 * What one permit is granted and uses in one quota of another unit than requests, from its
 * admission until nothing more is reported (docs/rules.md, "Costs").
 */
export class Usage {
  readonly prepared: Demanded
  readonly #requester: Requester
  readonly #windowEnd: number
  #latestGrant: Grant | null = null
  #granted = 0
  /** What the store counts for all grants. */
  #counted = 0
  /** How many grants still hold what they count. */
  #holding = 0
  #reported: number | null = null
  /** What counts if the permit has ended and nothing was reported. */
  #assumed = 0
  #hasEnded = false
  /** What was published last. */
  #published: number | null = null
  /** Whether the store has once not answered, so that the counter may differ. */
  #isFailed = false
  // What the store is told runs one after another, in the order of the reports.
  #settling: Promise<void> = Promise.resolve()

  constructor (prepared: Demanded, acquisition: Acquisition, requester: Requester) {
    this.prepared = prepared
    this.#requester = requester
    this.#windowEnd = Math.round(
      wallClock() + required(timeLeft(acquisition), 'the end of the window')
    )
    this.#add(acquisition)
  }

  /** What was granted, extensions included. */
  get granted (): number {
    return this.#granted
  }

  get isReported (): boolean {
    return this.#reported !== null
  }

  /** Adds what an extension was granted. */
  extend (acquisition: Acquisition): Promise<void> {
    this.#add(acquisition)
    return this.#settle()
  }

  /** Adds to what was reported. Never rejects. */
  report (amount: number): Promise<void> {
    this.#reported = Math.min((this.#reported ?? 0) + amount, unlimited)
    return this.#settle()
  }

  /**
   * Ends the permit: from now on it counts what was reported, or if nothing was, what `unreported`
   * says, or else what was granted. Never rejects.
   */
  end (): Promise<void> {
    if (this.#reported === null) this.#assumed = this.#readUnreported()
    this.#hasEnded = true
    return this.#settle()
  }

  #add (acquisition: Acquisition): void {
    this.#latestGrant = {
      acquisition,
      previous: this.#latestGrant,
      grantedBefore: this.#granted,
      counted: acquisition.granted,
      isHeld: true
    }
    this.#granted = Math.min(this.#granted + acquisition.granted, unlimited)
    this.#counted += acquisition.granted
    this.#holding += 1
  }

  #readUnreported (): number {
    const { unreported, name } = this.prepared.quota
    if (unreported === undefined) return this.#granted
    if (typeof unreported === 'number') return unreported
    try {
      const amount: unknown = unreported(requestFor('unreported', this.#requester))
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

  /** Makes the store count what is due, and publishes it if the permit has ended. */
  #settle (): Promise<void> {
    this.#settling = this.#settling.then(() => this.#settleGrants())
    return this.#settling
  }

  async #settleGrants (): Promise<void> {
    const due = this.#due
    const hasEnded = this.#hasEnded
    const isUsedUp = this.#reported !== null && this.#reported >= this.#granted
    const settling: Promise<void>[] = []
    for (const grant of this.#changeGrants(due, hasEnded || isUsedUp)) {
      if (settling.length >= mostAtOnce) await settling[settling.length - mostAtOnce]
      settling.push(this.#settleGrant(grant))
    }
    for (const settled of settling) await settled
    if (hasEnded) this.#publish(due)
  }

  /**
   * Distributes what is due over the grants: the first ones count as long as possible, and the
   * latest one what was used beyond all. Begins with the latest one and stops when all are right,
   * so that a step costs no more if there were many before.
   *
   * @returns The grants that the store must be told of.
   */
  #changeGrants (due: number, holdsNothing: boolean): Grant[] {
    const changed: Grant[] = []
    for (let grant = this.#latestGrant; grant !== null; grant = grant.previous) {
      if (this.#counted === due && (this.#holding === 0 || !holdsNothing)) break
      const rest = Math.max(0, due - grant.grantedBefore)
      const isLatest = grant === this.#latestGrant
      const used = isLatest ? rest : Math.min(rest, grant.acquisition.granted)
      const isHeldNoLonger = grant.isHeld && holdsNothing
      if (grant.counted === used && !isHeldNoLonger) continue
      this.#counted += used - grant.counted
      if (grant.isHeld) this.#holding -= 1
      grant.counted = used
      grant.isHeld = false
      changed.push(grant)
    }
    return changed
  }

  /** After a failure, the store may have applied it, so it is not told again. */
  async #settleGrant ({ acquisition, counted: used }: Grant): Promise<void> {
    const { quota, demand } = this.prepared
    try {
      await quota.store.settle?.(acquisition, used, this.#endOfWindow())
    } catch (error) {
      this.#isFailed = true
      const { name, unit } = quota
      const { counters } = demand
      const message = 'the quota store failed; what the request counts may be wrong'
      logFailure(this.#requester.log, error, message, { quota: name, unit, counters, used })
    }
  }

  /** Returns when the day or month that is open now ends. */
  #endOfWindow (): number | null {
    const { quota, demand, caller } = this.prepared
    if (quota.endOfWindow === null) return null
    try {
      return quota.endOfWindow(caller)
    } catch (error) {
      const message =
        "the caller's time zone could not be determined; what is settled counts in the window " +
        'of the admission'
      logFailure(this.#requester.log, error, message, { quota: quota.name })
      return demand.end
    }
  }

  #publish (used: number): void {
    if (used === this.#published) return
    const before = this.#published ?? 0
    this.#published = used
    if (!quotaSettlements.hasSubscribers) return
    const { quota, demand } = this.prepared
    quotaSettlements.publish({
      request: this.#requester.request,
      callerKey: demand.callerKey,
      quota: quota.name,
      unit: quota.unit,
      granted: this.#granted,
      used,
      before,
      reported: this.#reported !== null,
      windowEnd: this.#windowEnd,
      failed: this.#isFailed
    } satisfies QuotaSettlement)
  }
}
