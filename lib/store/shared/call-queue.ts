import { required } from '../../required.js'
import { haveRoom, settled } from '../side-by-side.js'
import type { Acquisition, Acquisitions, Demand, QuotaCount } from '../store.js'
import { Batch, contentOf, placesOf, type SentCall } from './batch.js'
import type { NamedPlace, QuotaCaller, Reply, RequestOfCall, Settlement } from './driver.js'
import type { Duty, DutyResult } from './duties.js'
import { GivenBack, type GivenBackLimits } from './given-back.js'
import { HeldPlaces, placeDuration } from './held-places.js'
import { acquisitionsOf, readReceipt, settlementOf } from './receipts.js'
import { countersOf, storedName } from './stored-names.js'
import type { CallName } from './unique-names.js'
import {
  rejectAsked,
  QueuedRequests,
  type DecidedRequest
} from './queued-requests.js'
import { nobody, rejectAll, resolveAll, type Ended } from './ended.js'

/** The age at which a place is renewed. It lasts three times as long, so two renewals can fail. */
const renewalAge = placeDuration / 3

/**
 * How often settlements and freed places are checked for having waited too long, in milliseconds.
 */
const expiryInterval = 1_000

/**
 * How a call has failed. Only after the last kind is it unknown whether it has run; after the first
 * one, the next attempt can succeed in a moment.
 */
export type FailureKind = 'try-again' | 'not-run' | 'unknown'

/** What the calls show of the server: see the table at `CallQueue`. */
type ServerState = 'working' | 'failing' | 'uncertain'

interface QueueOptions {
  /** As `Driver.mostDemands`. */
  readonly mostDemands: number
  /** As `Driver.hasJournal`. */
  readonly hasJournal: boolean
  /** As `Driver.canRepeat`. */
  readonly canRepeat: boolean
  /** Returns the milliseconds in which the event loop ran, by which what waits ages. */
  readonly ages: () => number
  /** Returns what is known to reject a request that waits; otherwise null. */
  readonly recall: (demands: readonly Demand[]) => Acquisitions | null
  /** Is called when something was given back in a row of the counters, for whatever reason. */
  readonly onGivenBack: (counters: string, row: string) => void
}

/** What was taken out of a call that was refused. */
interface RefusedCall {
  readonly settlements: readonly Duty<Settlement>[]
  readonly number: number
}

/**
 * What a process asks of one server: what waits for a call, in which order and until when. One call
 * is under way at a time: after `next` has returned one, `succeeded` or `failed` follows. `failed`
 * also comes alone, if there is no connection.
 *
 * A request is decided only after all that was given back in its counters: its call has the duties
 * of these counters first, or the request waits for a later call. Then other duties follow, as many
 * of each kind as a call has demands, so that neither duties nor requests fall behind.
 *
 * | state | the latest call | settlements | what was given back | next state |
 * |---|---|---|---|---|
 * | working | has run | are sent | waits, however much it is | failing or uncertain |
 * | failing | has certainly not run | are sent | too much of it is rejected | any |
 * | uncertain | may have run, or one before | wait for a call that has run | as above | working |
 *
 * While it is uncertain, no settlement is sent, since one that is sent and not answered is lost.
 *
 * If a client can send a call twice, the server may have refused the second one after the first one
 * has run. So the settlements of a refused call are sent again as they were, with its number and
 * before any others: a server that has applied them does nothing.
 */
export class CallQueue {
  readonly #options: QueueOptions
  readonly #places = new HeldPlaces()
  readonly #givenBack = new GivenBack()
  readonly #asked = new QueuedRequests()
  #state: ServerState = 'working'
  #underWay: SentCall | null = null
  // The settlements of a call that was refused, which may have run before.
  #refused: RefusedCall | null = null
  // The ages at which the latest reply came, and at which what was given back was last checked.
  #answeredAt = 0
  #expiredAt = 0

  constructor (options: QueueOptions) {
    this.#options = options
  }

  get hasRequests (): boolean {
    return !this.#asked.isEmpty
  }

  /** Whether nothing waits, and no place is held, which must be renewed. */
  get isIdle (): boolean {
    return this.#asked.isEmpty && !this.#hasGivenBack && this.#places.isEmpty
  }

  /** Whether a call has something to do even without requests. */
  hasDuties (now: number): boolean {
    return this.#hasGivenBack || this.#places.hasNotRenewedSince(now - renewalAge)
  }

  /** How many places of the caller this process holds. */
  held (demand: Demand): number {
    return this.#places.count(demand)
  }

  /** Whether something that was given back in the demand's counter waits for a call. */
  hasGivenBackIn (demand: Demand): boolean {
    if (this.#givenBack.isEmpty) return false
    return countersOf(demand).some((counter) => this.#givenBack.has(counter))
  }

  addRequest (demands: readonly Demand[], ended: Ended<DecidedRequest>): void {
    this.#asked.add(demands, this.#options.ages(), ended)
  }

  addStanding (demand: Demand, ended: Ended<QuotaCount | null>): void {
    this.#asked.addStanding(demand, this.#options.ages(), ended)
  }

  addSettlement (settlement: Settlement, ended: Ended<DutyResult>): void {
    this.#options.onGivenBack(settlement.counters, settlement.row)
    this.#givenBack.addSettlement(settlement, this.#options.ages(), ended)
    if (this.#state !== 'working') this.#givenBack.bound()
  }

  addFreed (place: NamedPlace, ended: Ended<DutyResult>): void {
    this.#places.delete(place)
    const row = storedName(place.callerKey)
    this.#options.onGivenBack(place.counters, row)
    this.#givenBack.addFreed(place, row, this.#options.ages(), ended)
    if (this.#state !== 'working') this.#givenBack.bound()
  }

  /** Forgets the places that this process holds, because the server has none any more. */
  dropPlaces (): void {
    this.#places.clear()
  }

  /**
   * Takes what the next call does. Returns null if there is nothing to do.
   *
   * @param now Monotonic milliseconds, by which places are renewed.
   * @param name That of the call, unless it repeats another one.
   */
  next (now: number, name: CallName): SentCall | null {
    this.#expire(null)
    this.#asked.rejectKnown(this.#options.recall)
    if (this.#refused !== null) return this.#repeat(this.#refused, now)
    const { mostDemands } = this.#options
    // What is asked only to be known has room of its own, and so have some of the oldest duties:
    // nothing waits for ever.
    const some = Math.ceil(mostDemands / 4)
    const batch = new Batch()
    this.#moveDuties(batch, now, some)
    this.#asked.moveRequests(batch, mostDemands, (demands) =>
      this.#moveDutiesOf(demands, batch, now)
    )
    this.#asked.moveStandings(batch, some)
    this.#moveDuties(batch, now, mostDemands)
    // A call without settlements, which can be empty, shows that the server works again.
    const isProbe = this.#state === 'uncertain' && this.#givenBack.hasSettlements
    if (batch.isEmpty && !isProbe) return null
    return this.#begin(batch, name, now)
  }

  /** The call has run. */
  succeeded (reply: Reply): void {
    const { batch, content, sentAt } = required(this.#underWay, 'the call of a reply')
    const decided = content.requests.map((request, index) =>
      this.#acquisitionsOf(request, index, reply)
    )
    this.#underWay = null
    this.#state = 'working'
    this.#answeredAt = this.#options.ages()
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

  /** The call has failed, or could not be sent. */
  failed (kind: FailureKind, error: unknown): void {
    const call = this.#underWay
    this.#underWay = null
    if (kind === 'unknown') this.#state = 'uncertain'
    else if (this.#state === 'working') this.#state = 'failing'
    if (call === null) {
      // All that it would have asked still waits in the queue.
      if (kind !== 'try-again') this.#asked.rejectAll(error)
    } else if (kind === 'unknown') {
      this.#giveUp(call, error)
    } else {
      this.#putBack(call, kind, error)
    }
    this.#givenBack.bound()
    this.#expire(error)
  }

  /** A reply has come too late. What it counted is given back, and nobody waits for that. */
  arrivedLate ({ content }: SentCall, reply: Reply): void {
    for (const [index, request] of content.requests.entries()) {
      const acquisitions = this.#acquisitionsOf(request, index, reply)
      if (!haveRoom(acquisitions)) continue
      for (const place of placesOf(request)) this.addFreed(place, nobody)
      for (const [position, demand] of request.demands.entries()) {
        const { granted, receipt } = required(acquisitions[position], 'an acquisition')
        const read = readReceipt(receipt)
        if (read.kind === 'place') continue
        const less = settled(demand, granted)
        this.addSettlement(settlementOf(read.counted, less, null), nobody)
      }
    }
  }

  /** Nothing of the call has run: its duties wait, and its requests, if they can be tried again. */
  #putBack (call: SentCall, kind: 'try-again' | 'not-run', error: unknown): void {
    const { batch, number } = call
    const { freed, settlements } = batch
    if (this.#options.canRepeat && settlements.length > 0) {
      this.#refused = { settlements, number }
      this.#givenBack.addAgain({ freed, settlements: [] })
    } else {
      this.#givenBack.addAgain(batch)
    }
    if (kind === 'try-again') this.#asked.putBack(batch)
    else this.#rejectAsked(call, error)
  }

  /** The call may have run: only what can be done twice, to free a place, is sent again. */
  #giveUp (call: SentCall, error: unknown): void {
    const { batch, content } = call
    for (const { ended } of [...batch.freed, ...batch.settlements]) rejectAll(ended, error)
    this.#rejectAsked(call, error)
    // Nobody waits for these any more.
    const freed = batch.freed.map((duty) => ({ ...duty, ended: [] }))
    this.#givenBack.addAgain({ freed, settlements: [] })
    // The call may have taken places.
    for (const request of content.requests) {
      for (const place of placesOf(request)) this.addFreed(place, nobody)
    }
  }

  /** Rejects what a call asks, and the requests that wait for it. */
  #rejectAsked ({ batch, waiting }: SentCall, error: unknown): void {
    rejectAsked(batch, error)
    this.#asked.rejectFirst(waiting, error)
  }

  #acquisitionsOf ({ demands, place }: RequestOfCall, index: number, reply: Reply): Acquisition[] {
    const decided = required(reply.decided[index], 'the decision on a request')
    const { hasJournal } = this.#options
    return acquisitionsOf(demands, decided, { place, period: reply.period, hasJournal })
  }

  get #hasGivenBack (): boolean {
    return !this.#givenBack.isEmpty || this.#refused !== null
  }

  /** Takes the settlements of a refused call, and nothing else. All requests wait for them. */
  #repeat ({ settlements, number }: RefusedCall, now: number): SentCall {
    this.#refused = null
    const batch = new Batch()
    batch.settlements.push(...settlements)
    return this.#begin(batch, { text: '', number }, now)
  }

  #begin (batch: Batch, { text, number }: CallName, now: number): SentCall {
    // A call without requests runs so that those that wait can be decided in the next one.
    const waiting = batch.requests.length === 0 ? this.#asked.requestCount : 0
    this.#underWay = { batch, content: contentOf(batch, text), number, sentAt: now, waiting }
    return this.#underWay
  }

  /** Moves the oldest duties into the call, until it has as many of each kind. */
  #moveDuties (batch: Batch, now: number, most: number): void {
    this.#givenBack.moveOldest(batch, this.#limits(most))
    const due = this.#places.notRenewedSince(now - renewalAge, most)
    for (const place of due) batch.renewed.add(place)
  }

  /**
   * Moves the duties of the demands' counters into the call. Returns whether it has all of them, so
   * that it can decide on the demands.
   */
  #moveDutiesOf (demands: readonly Demand[], batch: Batch, now: number): boolean {
    const endedAt = now - placeDuration
    if (this.#givenBack.isEmpty && !this.#places.hasNotRenewedSince(endedAt)) return true
    let hasAll = true
    for (const demand of demands) {
      if (!this.#moveGivenBackIn(demand, batch)) hasAll = false
      if (demand.window === null && !this.#moveEndedOf(demand, batch, endedAt)) hasAll = false
    }
    return hasAll
  }

  /** Moves what was given back in the demand's counters. Returns whether that is all. */
  #moveGivenBackIn (demand: Demand, batch: Batch): boolean {
    for (const counter of countersOf(demand)) {
      this.#givenBack.moveOf(counter, batch, this.#limits(this.#options.mostDemands))
    }
    return !this.hasGivenBackIn(demand)
  }

  /**
   * Renews the caller's places that have ended, before it takes more: after a stall or an outage,
   * others may have taken them. Returns whether that is all.
   */
  #moveEndedOf (caller: QuotaCaller, batch: Batch, endedAt: number): boolean {
    const { mostDemands } = this.#options
    // One more than fit shows that not all do.
    for (const place of this.#places.notRenewedSinceOf(caller, endedAt, mostDemands + 1)) {
      if (batch.renewed.size < mostDemands) batch.renewed.add(place)
      else if (!batch.renewed.has(place)) return false
    }
    return true
  }

  #limits (most: number): GivenBackLimits {
    return { freed: most, settlements: this.#state === 'uncertain' ? 0 : most }
  }

  /** @param error As that of `QueuedRequests.expire`. */
  #expire (error: unknown): void {
    const age = this.#options.ages()
    this.#asked.expire(age, this.#answeredAt, error)
    if (age - this.#expiredAt < expiryInterval) return
    this.#expiredAt = age
    this.#givenBack.expire(age)
  }
}
