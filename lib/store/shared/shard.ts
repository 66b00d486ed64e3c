import { setImmediate as turn } from 'node:timers/promises'
import { required } from '../../required.js'
import { withTimeout } from '../../time-limit.js'
import { haveRoom } from '../side-by-side.js'
import type { Acquisition, Demand } from '../store.js'
import { CountedDemand, CountedPlace, type Counted, type Settler } from './counted.js'
import type { Call, Caller, Decided, Driver, Reply, Settlement, StoredRequest } from './driver.js'
import { HeldPlaces, type HeldPlace } from './held-places.js'
import { longestWait, Queue, type Waiting } from './queue.js'

// Bounds how long a call keeps the server busy, and how many requests fail together.
const mostInCall = 128

// How many settlements can wait while the server does not answer.
const mostWaitingSettlements = 10_000

// A lease lasts three times as long, so two renewals can fail.
const renewalInterval = 10_000

// How long settlements wait after a call has failed, if no request comes that shows whether the
// server works again.
const retryInterval = 1_000

/** What is settled in one call: less in a window, or more in the one that is open. */
type SettlementItem = { readonly less: Settlement } | { readonly more: Demand }

type WaitingRequest = Waiting<StoredRequest, readonly Decided[]>
type WaitingSettlement = Waiting<SettlementItem, Decided | undefined>

/** What goes into one call. */
interface Batch {
  readonly requests: readonly WaitingRequest[]
  readonly settlements: readonly WaitingSettlement[]
  readonly placeChanges: readonly Waiting<HeldPlace, void>[]
}

/**
 * The callers that one driver serves. One call is in flight at a time, and the next one takes with
 * it what has arrived in the meantime: requests, settlements, and what this process holds.
 */
export class Shard implements Settler {
  readonly #driver: Driver
  readonly #time: () => Call['time']
  readonly #requests = new Queue<StoredRequest, readonly Decided[]>()
  readonly #settlements = new Queue<SettlementItem, Decided | undefined>(mostWaitingSettlements)
  readonly #placeChanges = new Queue<HeldPlace, void>()
  readonly #places = new HeldPlaces()
  readonly #counted: WeakMap<Acquisition, Counted>
  #sending: Promise<void> | undefined
  // Whether the latest call has failed.
  #isFailing = false
  #isRenewalDue = false
  #renewal: NodeJS.Timeout | undefined
  #retry: NodeJS.Timeout | undefined

  /** @param counted What can be settled, by its acquisition. The shard adds what it has counted. */
  constructor (
    driver: Driver,
    time: () => Call['time'],
    counted: WeakMap<Acquisition, Counted>
  ) {
    this.#driver = driver
    this.#time = time
    this.#counted = counted
  }

  /** Asks the driver at once. */
  ask<Result>(question: (driver: Driver, time: Call['time']) => Promise<Result>): Promise<Result> {
    return withTimeout(longestWait, question(this.#driver, this.#time()))
  }

  acquire (demands: StoredRequest): Promise<readonly Decided[]> {
    const decided = this.#requests.add(demands, performance.now() + longestWait)
    this.#start()
    return decided
  }

  /** How many places of the caller this process holds. */
  held (caller: Caller): number {
    return this.#places.held(caller)
  }

  dropPlaces (): void {
    this.#places.drop()
    this.#renewWhileHolding()
  }

  #start (): void {
    clearTimeout(this.#retry)
    this.#retry = undefined
    this.#sending ??= this.#sendAll()
  }

  async #sendAll (): Promise<void> {
    // What arrives in one turn of the event loop goes into the same call.
    do {
      await turn()
      await this.#send()
    } while (this.#requests.size > 0 || (!this.#isFailing && this.#hasChanges))
    this.#sending = undefined
    if (!this.#hasChanges) return
    this.#retry = setTimeout(() => {
      this.#start()
    }, retryInterval).unref()
  }

  get #hasChanges (): boolean {
    return this.#settlements.size > 0 || this.#placeChanges.size > 0 || this.#places.mustState
  }

  async #send (): Promise<void> {
    const batch = this.#nextBatch()
    const { requests, settlements, placeChanges } = batch
    const stored = requests.map(({ item }) => item)
    const reduced: Settlement[] = []
    for (const { item } of settlements) {
      if ('less' in item) reduced.push(item.less)
      else stored.push([item.more])
    }
    const callers: Caller[] = placesOf(stored)
    for (const { item } of placeChanges) callers.push(item)
    const places = this.#places.next(callers, this.#isRenewalDue)
    if (stored.length + reduced.length === 0 && places === null) return
    this.#isRenewalDue = false
    const call: Call = {
      time: this.#time(),
      lease: places?.lease ?? null,
      holdings: places?.holdings ?? [],
      settlements: reduced,
      requests: stored
    }
    const wasHolding = this.#places.isHolding
    try {
      const reply = await withTimeout(longestWait, this.#driver.decide(call), {
        late: (late) => {
          this.#settleLate(stored.slice(0, requests.length), late)
        }
      })
      this.#isFailing = false
      // The places that the call has taken belong to what a new generation states.
      this.#resolve(batch, reply)
      if (call.lease !== null) this.#places.noteSuccess(wasHolding, reply.isLeaseKnown)
    } catch (error) {
      this.#isFailing = true
      if (call.lease !== null) this.#places.beginGeneration()
      for (const waiting of [...requests, ...settlements, ...placeChanges]) {
        waiting.reject(error)
      }
    }
    this.#renewWhileHolding()
  }

  #nextBatch (): Batch {
    const requests = this.#requests.take(mostInCall)
    // While calls fail, settlements are not risked: requests show whether the server works again,
    // or one settlement if there is none.
    let mostSettlements = mostInCall
    if (this.#isFailing) mostSettlements = requests.length > 0 ? 0 : 1
    return {
      requests: this.#withinDemands(requests),
      settlements: this.#settlements.take(mostSettlements),
      placeChanges: this.#placeChanges.take(mostInCall)
    }
  }

  /** Puts back the requests that would make the call too long. */
  #withinDemands (requests: readonly WaitingRequest[]): readonly WaitingRequest[] {
    let demands = 0
    for (const [index, { item }] of requests.entries()) {
      demands += item.length
      if (demands > this.#driver.mostDemands && index > 0) {
        this.#requests.putBack(requests.slice(index))
        return requests.slice(0, index)
      }
    }
    return requests
  }

  #resolve ({ requests, settlements, placeChanges }: Batch, { decided }: Reply): void {
    const again: WaitingRequest[] = []
    for (const [index, waiting] of requests.entries()) {
      const acquisitions = decided[index]
      if (acquisitions === undefined) {
        again.push(waiting)
      } else {
        this.#note(waiting.item, acquisitions)
        waiting.resolve(acquisitions)
      }
    }
    this.#requests.putBack(again)

    let next = requests.length
    const settleAgain: WaitingSettlement[] = []
    for (const waiting of settlements) {
      if ('less' in waiting.item) {
        waiting.resolve(undefined)
        continue
      }
      const acquisitions = decided[next]
      next += 1
      if (acquisitions === undefined) settleAgain.push(waiting)
      else waiting.resolve(acquisitions[0])
    }
    this.#settlements.putBack(settleAgain)
    for (const { resolve } of placeChanges) resolve()
  }

  /** Notes what a request has counted, so that it can be settled. */
  #note (demands: StoredRequest, acquisitions: readonly Decided[]): void {
    if (!haveRoom(acquisitions)) return
    for (const [index, acquisition] of acquisitions.entries()) {
      const demand = required(demands[index], 'the demand of an acquisition')
      const counted =
        demand.window === null
          ? new CountedPlace(this, demand, this.#places.take(demand))
          : new CountedDemand(this, demand, acquisition)
      this.#counted.set(acquisition, counted)
    }
  }

  /**
   * Settles with 0 what the requests of a call have counted whose reply comes too late. Their
   * places end with the earlier generation. What was settled with more was used, and stays.
   */
  #settleLate (requests: readonly StoredRequest[], { decided }: Reply): void {
    for (const [index, demands] of requests.entries()) {
      const acquisitions = decided[index]
      if (acquisitions === undefined || !haveRoom(acquisitions)) continue
      for (const [position, acquisition] of acquisitions.entries()) {
        const demand = required(demands[position], 'the demand of an acquisition')
        if (demand.window === null) continue
        new CountedDemand(this, demand, acquisition).settle(0, demand.end).catch(() => {})
      }
    }
  }

  async free (place: HeldPlace): Promise<void> {
    if (!this.#places.free(place)) return
    const freed = this.#placeChanges.add(place, Infinity)
    this.#start()
    await freed
  }

  async addSettlement (settlement: Settlement, until: number): Promise<void> {
    await this.#addItem({ less: settlement }, until)
  }

  async addDemand (demand: Demand, until: number): Promise<Decided> {
    return required(await this.#addItem({ more: demand }, until), 'the decision on a settlement')
  }

  #addItem (item: SettlementItem, until: number): Promise<Decided | undefined> {
    const added = this.#settlements.add(item, Math.max(until, performance.now() + longestWait))
    this.#start()
    return added
  }

  #renewWhileHolding (): void {
    if (!this.#places.isHolding) {
      clearInterval(this.#renewal)
      this.#renewal = undefined
      return
    }
    this.#renewal ??= setInterval(() => {
      this.#isRenewalDue = true
      this.#start()
    }, renewalInterval).unref()
  }
}

/** The demands of places in a call, each of which is one of a caller whose holding it states. */
function placesOf (requests: readonly StoredRequest[]): Demand[] {
  return requests.flat().filter(({ window }) => window === null)
}
