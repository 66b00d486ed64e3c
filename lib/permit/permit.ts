import { isPromise, then, type Eventual } from '../promises.js'
import type { OpenPermit } from './closing.js'
import { Counted } from './holdings/counted.js'
import type { QuotaDecision } from './decision.js'
import { assertCanBeHandedOver } from './handing-over/hand-over.js'
import { writeHandedOver } from './handing-over/handed-over.js'
import type { Holding } from './holdings/holding.js'
import { Place } from './holdings/place.js'
import { takesUsage, type Quota } from './quota.js'
import type { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'
import { waitInHandler } from './settled-in-time.js'
import { Usage } from './holdings/usage.js'

/** A shadow quota of a request, and what the request has of it. */
export interface Shadow {
  readonly quota: Quota
  /** It refuses nothing. A promise until it is decided. */
  permit: Eventual<Permit>
}

/**
 * Returns the amount of a report in the unit of a quota; null for no report.
 *
 * @param granted What the admission counted.
 */
export type AmountReader = (quota: Quota, granted: number) => number | null

/** What has been decided on a request. */
export interface Decided {
  /** The decision that refuses; null if the request is admitted. */
  readonly refusal: QuotaDecision | null
  /** Those of an admitted request, in the order of its quotas, or the one that refuses it. */
  readonly decisions: readonly QuotaDecision[]
  /** Default: none. */
  readonly shadows?: readonly Shadow[]
  /** Whether a wait has ended because the decision concerns nobody any more. */
  readonly isAbandoned?: boolean
}

/** What a request has of its quotas: the decisions, and a holding of each quota that counted it. */
export class Permit implements OpenPermit {
  readonly requester: Requester
  /** The enforced quotas of the request, in their order; of a shadow permit, its quota. */
  readonly quotas: readonly QuotaOfRequest[]
  readonly refusal: QuotaDecision | null
  readonly decisions: readonly QuotaDecision[]
  /**
   * Whether the request was left while it waited for room, by its caller or by the host: it is
   * refused, but nobody gets the refusal.
   */
  readonly isAbandoned: boolean
  /** Whether something is to be settled when the permit ends. */
  mustBeSettled = false
  position: number | undefined = undefined
  /** What is to be settled when the permit ends, but for its shadows. */
  readonly #holdings: Holding[] = []
  readonly #shadows: readonly Shadow[]
  #settled: Promise<void> | undefined
  #handedOver: string | undefined

  constructor (requester: Requester, quotas: readonly QuotaOfRequest[], decided: Decided) {
    const { refusal, decisions, shadows = none, isAbandoned = false } = decided
    this.requester = requester
    this.quotas = quotas
    this.refusal = refusal
    this.decisions = decisions
    this.isAbandoned = isAbandoned
    this.#shadows = shadows
    if (refusal !== null) return
    let mustBeSettled = shadows.some(mustBeSettledLater)
    for (const each of quotas) {
      const holding = holdingOf(each, requester)
      if (holding === null) continue
      each.holding = holding
      this.#holdings.push(holding)
      if (!holding.isFinal) mustBeSettled = true
    }
    if (mustBeSettled) this.open()
  }

  get hasEnded (): boolean {
    return this.#settled !== undefined
  }

  /**
   * Returns what was granted of a unit: the least of the enforced quotas that count it. Null if the
   * request was not admitted, or if none of them counts it with a limit.
   */
  granted (unit: string): number | null {
    let least: number | null = null
    for (const { quota, holding, limit } of this.quotas) {
      if (quota.unit !== unit || !quota.isEnforced) continue
      if (holding === null || limit === Infinity) continue
      least = Math.min(least ?? holding.granted, holding.granted)
    }
    return least
  }

  /** Whether one of its quotas counts a unit, even if it is disabled or has no room. */
  counts (unit: string): boolean {
    return (
      this.quotas.some(({ quota }) => quota.unit === unit) ||
      this.#shadows.some(({ quota }) => quota.unit === unit)
    )
  }

  /** Whether a model's usage changes what one of its quotas counts. */
  get countsUsage (): boolean {
    return (
      this.quotas.some(({ quota }) => takesUsage(quota)) ||
      this.#shadows.some(({ quota }) => takesUsage(quota))
    )
  }

  /** Keeps what was granted until a model's usage is reported, even if the permit ends before. */
  expectUsage (): void {
    for (const { quota, holding } of this.quotas) {
      if (takesUsage(quota)) holding?.expectReport?.()
    }
    for (const { permit } of this.#shadows) then(permit, (shadow) => shadow.expectUsage())
  }

  /** Reports what was used of a unit, also after the permit has ended. Never rejects. */
  async report (unit: string, amount: number): Promise<void> {
    await this.reportEach((quota) => (quota.unit === unit ? amount : null))
  }

  /**
   * Reports what was used in each quota that admitted the request, also after the permit has ended,
   * but not after it was handed over. Never rejects.
   */
  async reportEach (amountOf: AmountReader): Promise<void> {
    if (this.#handedOver !== undefined) {
      this.requester.server.quotaLog.lateReport(new TypeError(afterHandOver))
      return
    }
    const reports: PromiseLike<void>[] = []
    for (const { quota, holding } of this.quotas) {
      if (holding === null) continue
      const amount = amountOf(quota, holding.granted)
      if (amount === null) continue
      reports.push(holding.report(amount))
      if (!this.mustBeSettled) {
        this.open()
        this.follow()
      }
    }
    this.#inShadows((shadow) => shadow.reportEach(amountOf))
    const reported = Promise.all(reports)
    this.requester.server.closing.waitFor(reported)
    await reported
  }

  /** Ends the permit with the response of its request, if something is to be settled then. */
  follow (): void {
    if (this.mustBeSettled && !this.hasEnded) this.requester.response?.endWithResponse(this)
  }

  /** Settles what was used and frees the places, once. Never rejects. */
  end (): Promise<void> {
    this.#settled ??= this.#settleEach((holding) => holding.end(), (shadow) => shadow.end())
    return this.#settled
  }

  /**
   * Gives everything back, requests too, because the operation does not run: the host has responded
   * in the meantime. Never rejects.
   */
  cancel (): Promise<void> {
    this.#settled ??= this.#settleEach((holding) => holding.cancel(), (shadow) => shadow.cancel())
    return this.#settled
  }

  /** What the `end` of a handler does: waits for 5 seconds at most. */
  endInHandler (): Promise<void> {
    return waitInHandler(this.end())
  }

  /** What `await using` does. */
  dispose (): Promise<void> {
    return this.endInHandler()
  }

  /**
   * Leaves the end of the permit to whoever resumes it: nothing is given back, and what it counts
   * is not held any more. Waits for that for 5 seconds at most.
   *
   * @returns The text, the same each time. What a shadow quota counts that is not decided yet is
   *   not in it, and stays counted.
   * @throws {TypeError} If the permit was refused or has ended, if it has places, or if all that it
   *   counts is counted in this process only.
   */
  async handOver (): Promise<string> {
    if (this.#handedOver === undefined) {
      const shadows = this.#shadows.map(({ permit }) => permit)
      const permits = [this, ...shadows.filter((shadow) => shadow instanceof Permit)]
      assertCanBeHandedOver(this, permits.flatMap(({ quotas }) => quotas))
      const holdings = permits.flatMap((permit) => permit.#holdings)
      this.#handedOver = writeHandedOver({
        reference: this.requester.reference,
        holdings: holdings.map(({ handedOver }) => handedOver).filter((each) => each !== null)
      })
    }
    await waitInHandler(this.#leave())
    return this.#handedOver
  }

  /** Leaves its end to another process. Never rejects. */
  #leave (): Promise<void> {
    this.#settled ??= this.#settleEach((holding) => holding.handOver(), (shadow) => shadow.#leave())
    return this.#settled
  }

  /** Lists it among what ends when the server closes. */
  open (): void {
    this.mustBeSettled = true
    if (!this.hasEnded) this.requester.server.closing.add(this)
  }

  /** From now on, it ends neither with its response nor with the server. */
  #unlist (): void {
    this.requester.server.closing.delete(this)
    this.requester.response?.forget(this)
  }

  async #settleEach (
    settle: (holding: Holding) => Promise<void>,
    settleShadow: (shadow: Permit) => Promise<void>
  ): Promise<void> {
    this.#unlist()
    const settling = this.#holdings.map(settle)
    // Each by itself, because a server that closes waits as long as a store settles any of them.
    for (const each of settling) this.requester.server.closing.waitFor(each)
    this.#inShadows(settleShadow)
    await Promise.all(settling)
  }

  /** Takes a step in each shadow quota, for which only a server that closes waits. */
  #inShadows (step: (shadow: Permit) => Promise<void>): void {
    for (const { permit } of this.#shadows) {
      this.requester.server.closing.waitFor(Promise.resolve(then(permit, step)))
    }
  }
}

const none: readonly never[] = []

const afterHandOver = 'the permit was handed over; report it in the permit that resumes it'

/** Whether the permit of a shadow quota has something to settle, or is not decided yet. */
function mustBeSettledLater ({ permit }: Shadow): boolean {
  return isPromise(permit) || permit.mustBeSettled
}

/** Returns what a quota gave a request; null if it counted nothing. */
function holdingOf (each: QuotaOfRequest, requester: Requester): Holding | null {
  const { quota, acquisition } = each
  if (acquisition === null || !acquisition.admitted) return null
  if (quota.longestWindow === null) return new Place(each, requester)
  if (quota.unit === 'requests') return new Counted(each, acquisition.granted, requester)
  return new Usage(each, requester)
}
