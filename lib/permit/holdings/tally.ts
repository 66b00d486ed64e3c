import type { Caller } from '../../caller/request-caller.js'
import { logFailure } from '../../log.js'
import { required } from '../../required.js'
import type { Demand, Settled } from '../../store/store.js'
import { acquireBeyond } from './beyond.js'
import type { Quota } from '../quota.js'
import type { QuotaOfRequest } from '../quota-of-request.js'
import type { Requester } from '../requester.js'

/** What the store is to count for a permit. */
export interface Due {
  readonly used: number
  /** Whether what the admission counted is still held. */
  readonly isHeld: boolean
}

/** What an acquisition still counts. */
interface Part {
  readonly receipt: unknown
  counts: number
}

/**
 * What the store counts for one permit in one quota. It has two parts, each brought to its own
 * target: the admission counts the first part of what was used, as far as it was granted, and is
 * only ever lowered; further acquisitions count the rest, which is beyond it. The receipts say
 * where it counts, and this says how much.
 */
export class Tally {
  /** Whether the store has failed once, so that its counter may differ. */
  hasStoreFailed = false
  readonly #quota: Quota
  readonly #caller: Caller
  readonly #demand: Demand
  readonly #requester: Requester
  readonly #admission: Part
  /** What the admission still holds. */
  #held: number
  /** What is due beyond the admission; where the store has failed, only perhaps counted. */
  #beyond = 0
  /**
   * The latest acquisition of what was used beyond; null if it failed. Only what `unreported`
   * assumes is lowered later, by a late report, and nothing was used beyond before that.
   */
  #latestBeyond: Part | null = null
  #applying: Promise<unknown> = Promise.resolve()

  constructor (each: QuotaOfRequest, requester: Requester) {
    const { receipt, granted } = required(each.acquisition, 'the acquisition of an admission')
    this.#quota = each.quota
    this.#caller = required(each.caller, 'the caller of an admission')
    this.#demand = required(each.demand, 'the demand of an admission')
    this.#requester = requester
    this.#admission = { receipt, counts: granted }
    this.#held = this.#demand.isEstimate ? granted : 0
  }

  /**
   * Makes the store count what is due. Changes are applied one after another; what is due is read
   * when it is the turn of this one. Never rejects.
   *
   * @param applied Runs after that, and before the next change is applied. Must not throw.
   */
  bringTo (read: () => Due, applied?: () => void): Promise<void> {
    const applying = this.#applying.then(async () => {
      await this.#apply(read())
      applied?.()
    })
    this.#applying = applying
    return applying
  }

  async #apply ({ used, isHeld }: Due): Promise<void> {
    const count = Math.max(0, this.#admission.counts - used)
    const held = isHeld ? 0 : this.#held
    this.#admission.counts -= count
    this.#held -= held
    const beyond = used - this.#admission.counts
    const change = beyond - this.#beyond
    this.#beyond = beyond
    if (change > 0) await this.#countBeyond(change)
    const settling: Promise<void>[] = []
    if (change < 0) settling.push(this.#lowerBeyond(-change))
    if (count > 0 || held > 0) settling.push(this.#settle(this.#admission, { count, held }))
    await Promise.all(settling)
  }

  async #lowerBeyond (excess: number): Promise<void> {
    const latest = this.#latestBeyond
    if (latest === null) return
    const count = Math.min(excess, latest.counts)
    latest.counts -= count
    await this.#settle(latest, { count, held: 0 })
  }

  /** After a failure, the store may have applied it, so it is not asked again. */
  async #settle ({ receipt }: Part, less: Settled): Promise<void> {
    const { store, lines } = this.#quota
    try {
      if (store.settle === undefined) throw new TypeError('the quota store has no function settle')
      await store.settle(receipt, less)
      lines?.freed(this.#demand.callerKey)
    } catch (error) {
      this.#noteFailure(error)
    }
  }

  /**
   * Counts what was used beyond the admission, in the window that is open now. After a failure, the
   * store may have counted it, so it is not asked again.
   */
  async #countBeyond (amount: number): Promise<void> {
    this.#latestBeyond = null
    try {
      const counter = { ...this.#demand, ...this.#windowNow() }
      const { receipt } = await acquireBeyond(this.#quota.store, counter, amount)
      this.#latestBeyond = { receipt, counts: amount }
    } catch (error) {
      this.#noteFailure(error)
    }
  }

  /** Returns the caller's day, week or month, now; that of the admission if it fails. */
  #windowNow (): Pick<Demand, 'start' | 'end'> {
    const { windowNow, name } = this.#quota
    if (windowNow === null) return this.#demand
    try {
      const { start, end } = windowNow(this.#caller)
      return { start, end }
    } catch (error) {
      const { server, log } = this.#requester
      server.quotaLog.windowBeyondFailed(error, name, log)
      return this.#demand
    }
  }

  #noteFailure (error: unknown): void {
    this.hasStoreFailed = true
    const { name, unit, counters } = this.#quota
    const message = 'the quota store failed; what the request counts may be wrong'
    logFailure(this.#requester.log, error, message, { quota: name, unit, counters })
  }
}
