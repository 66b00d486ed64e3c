import { required } from '../../required.js'
import { TimeLimitError } from '../../time-limit.js'
import { haveRoom } from '../side-by-side.js'
import type { Acquisition, Acquisitions, Demand, QuotaCount } from '../store.js'
import { Duties, type Duty, type DutyResult } from './duties.js'
import type { Call, NamedPlace, Reply, RequestOfCall, Settlement } from './driver.js'
import { counterOfPlace, HeldPlaces, keyOfPlace, placeDuration } from './held-places.js'
import { acquisitionsOf, readReceipt, settlementOf } from './receipts.js'
import { counterName, overflowRow, storedName } from './stored-names.js'
import { nobody, type Ended } from './waiting.js'

/** The age at which a place is renewed. It lasts three times as long, so two renewals can fail. */
const renewalAge = placeDuration / 3

/**
 * How long a request waits in the queue at most, in milliseconds. Not the time of its call, too:
 * under lasting overload, a request waits for about as long before it is sent, and its call would
 * have no time left.
 */
export const longestQueueTime = 2_500

/** How long a settlement of a short window waits at least, so that a call can be sent. */
const shortestWait = 5_000

/** How many settlements, and how many freed places, wait at most while the server fails. */
const mostWaiting = 10_000

/** How often the time of what waits is looked at, in milliseconds. */
const expiryInterval = 1_000

/**
 * How a call has failed. Only after the last kind is it unknown whether it has run; after the first
 * one, it can succeed in a moment.
 */
export type FailureKind = 'try-again' | 'not-run' | 'unknown'

/** What was decided on a request. */
export interface DecidedRequest {
  readonly acquisitions: Acquisitions
  /** When the call was sent; null if the request was rejected from memory. */
  readonly sentAt: number | null
}

interface WaitingRequest {
  readonly demands: readonly Demand[]
  /** The age from which on it is not sent any more. */
  readonly until: number
  readonly ended: Ended<DecidedRequest>
}

interface WaitingStanding {
  readonly key: string
  readonly demand: Demand
  readonly until: number
  readonly ended: Ended<QuotaCount | null>[]
}

/** What was taken out of the queue for one call. */
class Batch {
  readonly freed: Duty<NamedPlace>[] = []
  readonly renewed = new Set<NamedPlace>()
  readonly settlements: Duty<Settlement>[] = []
  readonly requests: WaitingRequest[] = []
  readonly standings: WaitingStanding[] = []
  /** How many requests were left in the queue, at its front. */
  left = 0

  get isEmpty (): boolean {
    const duties = this.freed.length + this.renewed.size + this.settlements.length
    return duties + this.requests.length + this.standings.length === 0
  }
}

/** What a call does, without the numbers that are the same for all calls. */
export type CallContent = Pick<
  Call, 'freed' | 'renewed' | 'settlements' | 'requests' | 'standings'
>

/** A call that was taken out of the queue, and when it was sent. */
export interface SentCall {
  readonly content: CallContent
  readonly sentAt: number
}

interface QueueOptions {
  /** As `Driver.mostDemands`. */
  readonly mostDemands: number
  /** As `Driver.hasJournal`. */
  readonly hasJournal: boolean
  /** Returns the milliseconds in which the event loop ran, by which what waits ages. */
  readonly ages: () => number
  /** Returns what is known to reject a request that waits; otherwise null. */
  readonly recall: (demands: readonly Demand[]) => Acquisitions | null
}

/**
 * What a process asks of one server: what waits for a call, in which order and until when. One call
 * is under way at a time: after `next`, `succeeded` or `failed` follows.
 *
 * A request is decided only after all that was given back in its counters: its call has the duties
 * of these counters first, or the request waits for a later call. Then others follow, as many of
 * each kind as a call has demands, so that neither duties nor requests fall behind.
 */
export class CallQueue {
  readonly #options: QueueOptions
  readonly #places = new HeldPlaces()
  readonly #freed = new Duties<NamedPlace>((older) => older)
  readonly #settlements = new Duties<Settlement>(joined)
  #requests: WaitingRequest[] = []
  #standings = new Map<string, WaitingStanding>()
  #unjoined = 0
  #dutiesExpiredAt = 0
  // The call that is under way, and what was taken out of the queue for it.
  #sent: SentCall | null = null
  #batch = new Batch()
  #hasFailed = false
  // Whether it is unknown if the latest call has run.
  #isSuspect = false

  constructor (options: QueueOptions) {
    this.#options = options
  }

  get hasRequests (): boolean {
    return this.#requests.length > 0 || this.#standings.size > 0
  }

  /** Whether nothing waits, and no place is held, which must be renewed. */
  get isIdle (): boolean {
    return !this.hasRequests && !this.#hasGivenBack && this.#places.isEmpty
  }

  /** Whether the latest call has failed. */
  get isFailing (): boolean {
    return this.#hasFailed
  }

  /** Whether a call has something to do even without requests. */
  hasDuties (now: number): boolean {
    return this.#hasGivenBack || this.#places.renewedBy(now - renewalAge, 1).length > 0
  }

  /** How many places of the caller this process holds. */
  held ({ counters, callerKey }: Demand): number {
    return this.#places.count(counterName(counters, storedName(callerKey)))
  }

  /** Whether something that was given back in the demand's counter waits for a call. */
  hasGivenBackIn (demand: Demand): boolean {
    if (!this.#hasGivenBack) return false
    return countersOf(demand).some(
      (counter) => this.#freed.has(counter) || this.#settlements.has(counter)
    )
  }

  addRequest (demands: readonly Demand[], ended: Ended<DecidedRequest>): void {
    const until = this.#options.ages() + longestQueueTime
    this.#requests.push({ demands, until, ended })
  }

  /** Those of the same counter and window are one. */
  addStanding (demand: Demand, ended: Ended<QuotaCount | null>): void {
    const { counters, callerKey, window, start, end } = demand
    const key = JSON.stringify([counters, callerKey, window, start, end])
    const until = this.#options.ages() + longestQueueTime
    this.#insertStanding({ key, demand, until, ended: [ended] })
  }

  /** Settlements of one window are one, unless each is remembered or written down by itself. */
  addSettlement (settlement: Settlement, ended: Ended<DutyResult>): void {
    const { counters, row, windowId, window, once, reference } = settlement
    const counter = counterName(counters, row)
    let key = `${windowId} ${counter}`
    if (once !== null || reference !== null) {
      this.#unjoined += 1
      key = `${key} ${this.#unjoined}`
    }
    const until = this.#options.ages() + Math.max(window, shortestWait)
    this.#settlements.add({ item: settlement, key, counter, until, ended: [ended] })
    this.#bound()
  }

  /** A place that was not freed ends by itself, so none waits for longer than a place lasts. */
  addFreed (place: NamedPlace, ended: Ended<DutyResult>): void {
    this.#places.delete(place)
    const until = this.#options.ages() + placeDuration
    const counter = counterOfPlace(place)
    this.#freed.add({ item: place, key: keyOfPlace(place), counter, until, ended: [ended] })
    this.#bound()
  }

  /** Forgets the places that this process holds, because the server has none any more. */
  dropPlaces (): void {
    this.#places.clear()
  }

  /**
   * Takes what the next call does. Returns null if there is nothing to do.
   *
   * @param now Monotonic milliseconds, by which places are renewed.
   * @param callName A name that no other call has, of no process.
   */
  next (now: number, callName: string): SentCall | null {
    this.#expire(new TimeLimitError(longestQueueTime))
    this.#rejectKnown()
    const batch = new Batch()
    // Some of the oldest duties first, so that none waits for ever.
    this.#takeDuties(batch, now, Math.ceil(this.#options.mostDemands / 4))
    this.#takeRequests(batch, now)
    this.#takeStandings(batch)
    this.#takeDuties(batch, now, this.#options.mostDemands)
    // After a call without a reply, one without settlements, which can be empty, shows first that
    // the server works again.
    const isProbe = this.#isSuspect && this.#settlements.size > 0
    if (batch.isEmpty && !isProbe) return null
    this.#batch = batch
    this.#sent = { content: contentOf(batch, callName), sentAt: now }
    return this.#sent
  }

  /** The call has run. */
  succeeded (reply: Reply): void {
    const batch = this.#batch
    const { content, sentAt } = required(this.#sent, 'the call of a reply')
    const decided = content.requests.map((request, index) =>
      this.#acquisitionsOf(request, index, reply)
    )
    this.#callEnded()
    this.#isSuspect = false
    this.#places.renew(batch.renewed, sentAt)
    for (const [index, { item, ended }] of batch.settlements.entries()) {
      resolveAll(ended, item.once === null ? undefined : reply.applied[index])
    }
    for (const { ended } of batch.freed) resolveAll(ended, undefined)
    for (const [index, { ended }] of batch.requests.entries()) {
      const request = required(content.requests[index], 'a request')
      const acquisitions = required(decided[index], 'the decisions on a request')
      if (haveRoom(acquisitions)) {
        for (const place of placesOf(request)) this.#places.add(place, sentAt)
      }
      ended.resolve({ acquisitions, sentAt })
    }
    for (const [index, { ended }] of batch.standings.entries()) {
      resolveAll(ended, reply.standings[index] ?? null)
    }
  }

  /**
   * The call has failed, or could not be sent. What can be sent again waits: places to be freed,
   * which can be done twice; settlements, if nothing has run; and requests, if the next attempt can
   * succeed in a moment.
   */
  failed (kind: FailureKind, error: unknown): void {
    const batch = this.#batch
    const sent = this.#sent
    this.#callEnded()
    this.#hasFailed = true
    this.#freed.addAgain(batch.freed)
    if (kind === 'unknown') {
      this.#isSuspect = true
      for (const { ended } of batch.settlements) rejectAll(ended, error)
      // The call may have taken places.
      for (const request of sent?.content.requests ?? []) {
        for (const place of placesOf(request)) this.addFreed(place, nobody)
      }
    } else {
      this.#settlements.addAgain(batch.settlements)
    }
    if (kind === 'try-again') {
      this.#putBack(batch)
    } else if (sent === null) {
      this.#rejectRequests(this.#requests.splice(0), this.#takeAllStandings(), error)
    } else {
      // Without a request in the call, those fail that wait until settlements can be sent.
      const left = batch.requests.length === 0 ? this.#requests.splice(0, batch.left) : []
      this.#rejectRequests([...batch.requests, ...left], batch.standings, error)
    }
    this.#expire(error)
    this.#bound()
  }

  /** A reply has come too late. What it counted is given back, and nobody waits for that. */
  arrivedLate ({ content }: SentCall, reply: Reply): void {
    for (const [index, request] of content.requests.entries()) {
      const acquisitions = this.#acquisitionsOf(request, index, reply)
      if (!haveRoom(acquisitions)) continue
      for (const place of placesOf(request)) this.addFreed(place, nobody)
      for (const [position, { isEstimate }] of request.demands.entries()) {
        const { granted, receipt } = required(acquisitions[position], 'an acquisition')
        const read = readReceipt(receipt)
        if (read.kind === 'place') continue
        const less = { count: granted, held: isEstimate ? granted : 0 }
        this.addSettlement(settlementOf(read.counted, less, null), nobody)
      }
    }
  }

  get #hasGivenBack (): boolean {
    return this.#freed.size > 0 || this.#settlements.size > 0
  }

  #callEnded (): void {
    this.#batch = new Batch()
    this.#sent = null
    this.#hasFailed = false
  }

  #acquisitionsOf ({ demands, place }: RequestOfCall, index: number, reply: Reply): Acquisition[] {
    const decided = required(reply.decided[index], 'the decision on a request')
    const { hasJournal } = this.#options
    return acquisitionsOf(demands, decided, { place, period: reply.period, hasJournal })
  }

  /** Takes as many of the oldest duties of each kind as a call then has. */
  #takeDuties (batch: Batch, now: number, most: number): void {
    batch.freed.push(...this.#freed.take(most - batch.freed.length))
    for (const place of this.#places.renewedBy(now - renewalAge, most)) batch.renewed.add(place)
    if (this.#isSuspect) return
    batch.settlements.push(...this.#settlements.take(most - batch.settlements.length))
  }

  #takeRequests (batch: Batch, now: number): void {
    const left: WaitingRequest[] = []
    let demands = 0
    let isFull = false
    for (const waiting of this.#requests) {
      const size = waiting.demands.length
      // One with more demands than a call has is sent alone.
      if (demands > 0 && demands + size > this.#options.mostDemands) isFull = true
      if (isFull || !this.#takeDutiesOf(waiting.demands, batch, now)) {
        left.push(waiting)
      } else {
        batch.requests.push(waiting)
        demands += size
      }
    }
    this.#requests = left
    batch.left = left.length
  }

  /**
   * Takes the duties of the demands' counters. Returns whether the call has all of them, so that it
   * can decide on the demands.
   */
  #takeDutiesOf (demands: readonly Demand[], batch: Batch, now: number): boolean {
    const most = this.#options.mostDemands
    let hasAll = true
    for (const demand of demands) {
      for (const counter of countersOf(demand)) {
        if (this.#hasGivenBack) {
          batch.freed.push(...this.#freed.takeOf(counter, most - batch.freed.length))
          const settlements = this.#isSuspect ? 0 : most - batch.settlements.length
          batch.settlements.push(...this.#settlements.takeOf(counter, settlements))
          if (this.#freed.has(counter) || this.#settlements.has(counter)) hasAll = false
        }
        // After a stall or an outage, others may have taken places that this process still holds.
        // It renews them before it takes more.
        for (const place of this.#places.renewedByOf(counter, now - placeDuration)) {
          if (batch.renewed.size >= most && !batch.renewed.has(place)) hasAll = false
          else batch.renewed.add(place)
        }
      }
    }
    return hasAll
  }

  /** Beside the requests, so that neither keeps the other waiting. */
  #takeStandings (batch: Batch): void {
    const most = Math.ceil(this.#options.mostDemands / 4)
    for (const [key, waiting] of this.#standings) {
      if (batch.standings.length === most) break
      batch.standings.push(waiting)
      this.#standings.delete(key)
    }
  }

  #takeAllStandings (): WaitingStanding[] {
    const standings = [...this.#standings.values()]
    this.#standings = new Map()
    return standings
  }

  #insertStanding (standing: WaitingStanding): void {
    const older = this.#standings.get(standing.key)
    if (older === undefined) this.#standings.set(standing.key, standing)
    else older.ended.push(...standing.ended)
  }

  /** Puts back what was taken for a call that has not run. It is older than all that waits. */
  #putBack (batch: Batch): void {
    this.#requests = [...batch.requests, ...this.#requests]
    const newer = this.#takeAllStandings()
    for (const standing of [...batch.standings, ...newer]) this.#insertStanding(standing)
  }

  #rejectRequests (
    requests: readonly WaitingRequest[],
    standings: readonly WaitingStanding[],
    error: unknown
  ): void {
    for (const { ended } of requests) ended.reject(error)
    for (const { ended } of standings) rejectAll(ended, error)
  }

  /** Rejects those who wait and are known to have no room. */
  #rejectKnown (): void {
    const left: WaitingRequest[] = []
    for (const waiting of this.#requests) {
      const acquisitions = this.#options.recall(waiting.demands)
      if (acquisitions === null) left.push(waiting)
      else waiting.ended.resolve({ acquisitions, sentAt: null })
    }
    this.#requests = left
  }

  /**
   * Ends what has waited for too long.
   *
   * @param error What requests are rejected with.
   */
  #expire (error: unknown): void {
    const age = this.#options.ages()
    const isOld = ({ until }: { until: number }): boolean => until <= age
    // All requests wait for as long, so the oldest are the first.
    const firstYoung = this.#requests.findIndex((waiting) => !isOld(waiting))
    const old = firstYoung === -1 ? this.#requests.length : firstYoung
    const standings = [...this.#standings.values()].filter(isOld)
    for (const { key } of standings) this.#standings.delete(key)
    this.#rejectRequests(this.#requests.splice(0, old), standings, error)
    if (age - this.#dutiesExpiredAt < expiryInterval) return
    this.#dutiesExpiredAt = age
    for (const { ended } of this.#freed.takeExpired(age)) resolveAll(ended, undefined)
    for (const { ended } of this.#settlements.takeExpired(age)) {
      rejectAll(ended, new Error('the settlement waited until its window was over'))
    }
  }

  /** Rejects the oldest of what was given back if too much waits, because the server fails. */
  #bound (): void {
    if (!this.#hasFailed) return
    const error = new Error(`more than ${mostWaiting} settlements wait for the server`)
    for (const duties of [this.#freed, this.#settlements]) {
      for (const { ended } of duties.take(duties.size - mostWaiting)) rejectAll(ended, error)
    }
  }
}

function contentOf (batch: Batch, callName: string): CallContent {
  return {
    freed: batch.freed.map(({ item }) => item),
    renewed: [...batch.renewed],
    settlements: batch.settlements.map(({ item }) => item),
    requests: batch.requests.map(({ demands }, index) => ({
      demands,
      place: `${callName}:${index}`
    })),
    standings: batch.standings.map(({ demand }) => demand)
  }
}

/** The names of the counters that a demand can reach: the caller's own, and that of overflow. */
function countersOf ({ counters, callerKey }: Demand): string[] {
  return [
    counterName(counters, storedName(callerKey)),
    counterName(counters, overflowRow)
  ]
}

/** The places that a request takes, if it is admitted. */
function placesOf ({ demands, place }: RequestOfCall): NamedPlace[] {
  const places: NamedPlace[] = []
  for (const { counters, callerKey, window } of demands) {
    if (window === null) places.push({ counters, callerKey, name: place })
  }
  return places
}

/** Joins two settlements of the same window. */
function joined (one: Settlement, other: Settlement): Settlement {
  const lessHeld = new Map(one.lessHeld)
  for (const [period, less] of other.lessHeld) {
    lessHeld.set(period, less + (lessHeld.get(period) ?? 0))
  }
  return { ...one, lessCount: one.lessCount + other.lessCount, lessHeld }
}

function resolveAll<Result> (ended: readonly Ended<Result>[], result: Result): void {
  for (const each of ended) each.resolve(result)
}

function rejectAll<Result> (ended: readonly Ended<Result>[], error: unknown): void {
  for (const each of ended) each.reject(error)
}
