import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { required } from '../../required.js'
import { TimeLimitError, withTimeout } from '../../time-limit.js'
import { haveRoom } from '../side-by-side.js'
import type { Demand } from '../store.js'
import { NotRunError, placeDuration, TryAgainError } from './driver.js'
import type {
  Call,
  Caller,
  Decided,
  Driver,
  NamedPlace,
  Reply,
  Settlement,
  RequestOfCall
} from './driver.js'
import { FreedPlaces } from './freed-places.js'
import { HeldPlaces } from './held-places.js'
import {
  CountedInWindow,
  SharedAcquisition,
  TakenPlace,
  type Settler
} from './shared-acquisition.js'
import { WaitingSettlements } from './waiting-settlements.js'
import { longestCallTime, longestQueueTime, longestWait, Waiting } from './waiting.js'

// How many requests a call has, and how many settlements. Bounds how long it keeps the server busy,
// and how many requests fail together.
const mostInCall = 128

// How many places a call frees, and how many it renews.
const mostPlacesInCall = 256

// The age at which a place is renewed. It lasts three times as long, so two renewals can fail.
const renewalAge = 10_000

// How often to look for something to send while this process holds places, or while something waits
// because a call has failed.
const wakeInterval = 1_000

// How long a call waits before it is sent again, if nothing of it has run.
const notRunPause = 50

type WaitingRequest = Waiting<readonly Demand[], readonly SharedAcquisition[]>

/** What goes into one call. */
interface Batch {
  readonly freed: readonly Waiting<NamedPlace>[]
  readonly renewed: readonly NamedPlace[]
  readonly settlements: readonly Waiting<Settlement>[]
  readonly requests: readonly WaitingRequest[]
  /** Whether requests wait until more places have been renewed than one call renews. */
  readonly mustRenewFirst: boolean
}

/**
 * The callers that one driver serves. One call is on its way at a time, and the next one takes with
 * it what has arrived in the meantime.
 */
export class Shard implements Settler {
  readonly #driver: Driver
  readonly #clock: () => number
  readonly #time: () => Call['time']
  readonly #process = randomBytes(9).toString('base64url')
  readonly #places = new HeldPlaces()
  readonly #freed = new FreedPlaces()
  readonly #settlements = new WaitingSettlements()
  #requests: WaitingRequest[] = []
  #calls = 0
  #sending: Promise<void> | undefined
  // Whether the latest call has failed.
  #isFailing = false
  #wake: NodeJS.Timeout | undefined

  /**
   * @param clock Returns monotonic milliseconds.
   * @param time Returns the time of a call.
   */
  constructor (driver: Driver, clock: () => number, time: () => Call['time']) {
    this.#driver = driver
    this.#clock = clock
    this.#time = time
  }

  /** Asks the driver something without waiting for a call. */
  ask<Result>(question: (driver: Driver, time: Call['time']) => Promise<Result>): Promise<Result> {
    return withTimeout(longestWait, question(this.#driver, this.#time()))
  }

  acquire (demands: readonly Demand[]): Promise<readonly SharedAcquisition[]> {
    const waiting: WaitingRequest = new Waiting(demands, performance.now() + longestQueueTime)
    this.#requests.push(waiting)
    this.#start()
    return waiting.done
  }

  settle (settlement: Settlement, window: number): Promise<void> {
    const settled = this.#settlements.add(settlement, window)
    if (this.#isFailing) this.#settlements.bound()
    this.#start()
    return settled
  }

  free (place: NamedPlace): Promise<void> {
    this.#places.delete(place)
    const freed = this.#freed.add(place)
    this.#start()
    return freed
  }

  /** How many places of the caller this process holds. */
  held (caller: Caller): number {
    return this.#places.count(caller)
  }

  dropPlaces (): void {
    this.#places.clear()
  }

  #start (): void {
    this.#sending ??= this.#sendAll()
  }

  async #sendAll (): Promise<void> {
    try {
      do {
        // What arrives in one turn of the event loop goes into the same call.
        await turn()
        await this.#send()
      } while (this.#requests.length > 0 || (!this.#isFailing && this.#hasWork))
    } catch (error) {
      // The host's clock has failed.
      for (const { reject } of this.#requests.splice(0)) reject(error)
    }
    this.#sending = undefined
    const canSleep = this.#settlements.size === 0 && this.#freed.size === 0 && this.#places.isEmpty
    if (canSleep) return
    this.#wake ??= setTimeout(() => {
      this.#wake = undefined
      this.#start()
    }, wakeInterval).unref()
  }

  /** Whether a call has something to do even without requests. */
  get #hasWork (): boolean {
    if (this.#settlements.size > 0 || this.#freed.size > 0) return true
    return this.#places.renewedBy(this.#clock() - renewalAge, 1).length > 0
  }

  async #send (): Promise<void> {
    // Before anything is taken out of the queues, since the host's clock can fail.
    const sentAt = this.#clock()
    const time = this.#time()
    const batch = this.#nextBatch(sentAt)
    const { freed, renewed, settlements, requests } = batch
    const isEmpty = freed.length + renewed.length + settlements.length + requests.length === 0
    const isProbe = this.#isFailing && this.#settlements.size > 0
    if (isEmpty && !isProbe) return
    this.#calls += 1
    const name = `${this.#process}:${this.#calls.toString(36)}`
    const call: Call = {
      time,
      freed: freed.map(({ item }) => item),
      renewed,
      settlements: settlements.map(({ item }) => item),
      requests: requests.map(({ item }, index) => ({ demands: item, place: `${name}:${index}` }))
    }
    try {
      const reply = await this.#decide(call, sentAt)
      this.#isFailing = false
      this.#places.renew(renewed, sentAt)
      for (const [index, { resolve }] of requests.entries()) {
        const request = required(call.requests[index], 'a request')
        const decided = required(reply[index], 'the decision on a request')
        resolve(this.#acquisitionsOf(request, decided, sentAt))
      }
      for (const { resolve } of [...freed, ...settlements]) resolve()
    } catch (error) {
      this.#isFailing = true
      this.#fail(batch, call, error)
    }
  }

  #nextBatch (now: number): Batch {
    const ended = this.#places.renewedBy(now - placeDuration, mostPlacesInCall + 1)
    // After a stall or an outage, others may have taken places that this process still holds. It
    // renews them before it takes more.
    const mustRenewFirst = ended.length > mostPlacesInCall
    return {
      freed: this.#freed.take(mostPlacesInCall),
      renewed: this.#places.renewedBy(now - renewalAge, mostPlacesInCall),
      // A settlement whose reply is lost cannot be sent again. So while calls fail, one without
      // settlements, which can be empty, shows first that the server works again.
      settlements: this.#settlements.take(this.#isFailing ? 0 : mostInCall),
      requests: this.#takeRequests(mustRenewFirst ? 0 : mostInCall),
      mustRenewFirst
    }
  }

  /** Takes as many requests as a call has. Rejects those first that have waited for too long. */
  #takeRequests (most: number): WaitingRequest[] {
    const now = performance.now()
    const taken: WaitingRequest[] = []
    let demands = 0
    let next = 0
    for (const waiting of this.#requests) {
      if (waiting.until > now) {
        demands += waiting.item.length
        const isFull = demands > this.#driver.mostDemands && taken.length > 0
        if (isFull || taken.length === most) break
        taken.push(waiting)
      } else {
        waiting.reject(new TimeLimitError(longestQueueTime))
      }
      next += 1
    }
    this.#requests = this.#requests.slice(next)
    return taken
  }

  /** Sends a call, and sends it again after a `TryAgainError`, until its time is over. */
  async #decide (call: Call, sentAt: number): Promise<Reply> {
    const until = performance.now() + longestCallTime
    for (;;) {
      try {
        return await withTimeout(until - performance.now(), this.#driver.decide(call), {
          late: (reply) => {
            this.#settleLate(call, reply, sentAt)
          }
        })
      } catch (error) {
        if (error instanceof TimeLimitError) throw new TimeLimitError(longestCallTime)
        const isLast = performance.now() + notRunPause >= until
        if (isLast || !(error instanceof TryAgainError)) throw error
      }
      await new Promise((resolve) => setTimeout(resolve, notRunPause))
    }
  }

  /** @param sentAt When the call was sent. */
  #acquisitionsOf (
    { demands, place }: RequestOfCall,
    decided: readonly Decided[],
    sentAt: number
  ): SharedAcquisition[] {
    const isCounted = haveRoom(decided)
    const acquisitions: SharedAcquisition[] = []
    for (const [index, each] of decided.entries()) {
      const demand = required(demands[index], 'the demand of an acquisition')
      if (!isCounted) {
        acquisitions.push(new SharedAcquisition(this, demand, each))
      } else if (demand.window !== null) {
        acquisitions.push(new CountedInWindow(this, demand, each))
      } else {
        const taken = new TakenPlace(this, demand, each, place)
        this.#places.add(taken.place, sentAt)
        acquisitions.push(taken)
      }
    }
    return acquisitions
  }

  /** Settles with 0 what a call has counted whose reply comes too late. */
  #settleLate (call: Call, reply: Reply, sentAt: number): void {
    for (const [index, request] of call.requests.entries()) {
      const decided = required(reply[index], 'the decision on a request')
      for (const acquisition of this.#acquisitionsOf(request, decided, sentAt)) {
        acquisition.settle(0).catch(() => {})
      }
    }
  }

  /**
   * Rejects what waits for a failed call, and keeps what can be sent again: settlements of which
   * certainly nothing has run, and places to be freed, which can be done twice.
   */
  #fail (batch: Batch, call: Call, error: unknown): void {
    const { freed, settlements, requests, mustRenewFirst } = batch
    this.#freed.addAgain(freed)
    const reason = error instanceof NotRunError ? error.cause : error
    const failed = mustRenewFirst ? this.#takeRequests(mostInCall) : requests
    for (const { reject } of [...freed, ...failed]) reject(reason)
    if (error instanceof NotRunError) {
      this.#settlements.addAgain(settlements)
    } else {
      for (const { demands, place } of call.requests) this.#freeTaken(demands, place)
      for (const { reject } of settlements) reject(error)
    }
    this.#settlements.bound()
  }

  /** Frees the places of a request that a failed call may have taken. */
  #freeTaken (demands: readonly Demand[], name: string): void {
    for (const { counters, callerKey, window } of demands) {
      if (window === null) this.#freed.addTaken({ counters, callerKey, name })
    }
  }
}
