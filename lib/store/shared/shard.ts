import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { required } from '../../required.js'
import { TimeLimitError, withTimeout } from '../../time-limit.js'
import { haveRoom } from '../side-by-side.js'
import type { Demand } from '../store.js'
import { NotRunError } from './driver.js'
import type {
  Call,
  Caller,
  Decided,
  Driver,
  NamedPlace,
  Reply,
  Settlement,
  StoredRequest
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
import { longestWait, Waiting } from './waiting.js'

// Bounds how long a call keeps the server busy, and how many requests fail together.
const mostInCall = 128

// How many places a call frees, and how many it renews.
const mostPlacesInCall = 256

// A place lasts three times as long, so two renewals can fail.
const renewalInterval = 10_000

// How long settlements and places wait after a call has failed, if no request comes that shows
// whether the server works again.
const retryInterval = 1_000

// How long a call waits before it is sent again, if nothing of it has run.
const notRunPause = 50

type WaitingRequest = Waiting<readonly Demand[], readonly SharedAcquisition[]>

/** What goes into one call. */
interface Batch {
  readonly freed: readonly Waiting<NamedPlace>[]
  readonly renewed: readonly NamedPlace[]
  readonly settlements: readonly Waiting<Settlement>[]
  readonly requests: readonly WaitingRequest[]
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
  #renewedAt = 0
  #renewal: NodeJS.Timeout | undefined
  #retry: NodeJS.Timeout | undefined

  /**
   * @param clock Returns monotonic milliseconds.
   * @param time Returns the time of a call.
   */
  constructor (driver: Driver, clock: () => number, time: () => Call['time']) {
    this.#driver = driver
    this.#clock = clock
    this.#time = time
  }

  /** Asks the driver beside the calls. */
  ask<Result>(question: (driver: Driver, time: Call['time']) => Promise<Result>): Promise<Result> {
    return withTimeout(longestWait, question(this.#driver, this.#time()))
  }

  acquire (demands: readonly Demand[]): Promise<readonly SharedAcquisition[]> {
    const waiting: WaitingRequest = new Waiting(demands, performance.now() + longestWait)
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
    this.#renewWhileHolding()
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
    } while (this.#requests.length > 0 || (!this.#isFailing && this.#isWaiting))
    this.#sending = undefined
    if (!this.#isWaiting) return
    this.#retry = setTimeout(() => {
      this.#start()
    }, retryInterval).unref()
  }

  /** Whether something waits that no request asks for. */
  get #isWaiting (): boolean {
    return this.#settlements.size > 0 || this.#freed.size > 0 || this.#places.areDue
  }

  async #send (): Promise<void> {
    const batch = this.#nextBatch()
    const { freed, renewed, settlements, requests } = batch
    if (freed.length + renewed.length + settlements.length + requests.length === 0) return
    this.#calls += 1
    const name = `${this.#process}:${this.#calls.toString(36)}`
    const call: Call = {
      time: this.#time(),
      freed: freed.map(({ item }) => item),
      renewed,
      settlements: settlements.map(({ item }) => item),
      requests: requests.map(({ item }, index) => ({ demands: item, place: `${name}:${index}` }))
    }
    try {
      const until = requests[0]?.until ?? performance.now() + longestWait
      const reply = await this.#decide(call, until)
      this.#isFailing = false
      for (const [index, { resolve }] of requests.entries()) {
        resolve(this.#acquisitionsOf(required(call.requests[index], 'a request'), reply[index]))
      }
      for (const { resolve } of [...freed, ...settlements]) resolve()
    } catch (error) {
      this.#isFailing = true
      this.#fail(batch, call, error)
    }
    this.#renewWhileHolding()
  }

  #nextBatch (): Batch {
    const requests = this.#takeRequests()
    // While calls fail, settlements are not risked: requests show whether the server works again,
    // or one settlement if there is none.
    let mostSettlements = mostInCall
    if (this.#isFailing) mostSettlements = requests.length > 0 ? 0 : 1
    // A timer can be late. What this process holds is renewed before it takes more.
    if (this.#clock() - this.#renewedAt >= renewalInterval) this.#renewAll()
    return {
      freed: this.#freed.take(mostPlacesInCall),
      renewed: this.#places.takeDue(mostPlacesInCall),
      settlements: this.#settlements.take(mostSettlements),
      requests
    }
  }

  /** Takes as many requests as a call can have, and rejects those that have waited for too long. */
  #takeRequests (): WaitingRequest[] {
    const now = performance.now()
    const taken: WaitingRequest[] = []
    let demands = 0
    let next = 0
    for (const waiting of this.#requests) {
      demands += waiting.item.length
      const isFull = demands > this.#driver.mostDemands && taken.length > 0
      if (isFull || taken.length === mostInCall) break
      next += 1
      if (waiting.until > now) taken.push(waiting)
      else waiting.reject(new TimeLimitError(longestWait))
    }
    this.#requests = this.#requests.slice(next)
    return taken
  }

  /**
   * Sends a call, and again if certainly nothing of it has run and it can succeed in a moment.
   *
   * @param until The time of `performance.now()` until which it waits for the reply.
   */
  async #decide (call: Call, until: number): Promise<Reply> {
    for (;;) {
      try {
        return await withTimeout(until - performance.now(), this.#driver.decide(call), {
          late: (reply) => {
            this.#settleLate(call, reply)
          }
        })
      } catch (error) {
        if (error instanceof TimeLimitError) throw new TimeLimitError(longestWait)
        const isLast = performance.now() + notRunPause >= until
        const canBeSentAgain = error instanceof NotRunError && error.isBrief && !isLast
        if (error instanceof TimeLimitError) throw new TimeLimitError(longestWait)
        if (!canBeSentAgain) throw error
      }
      await new Promise((resolve) => setTimeout(resolve, notRunPause))
    }
  }

  #acquisitionsOf (
    { demands, place }: StoredRequest,
    decided: readonly Decided[] = []
  ): SharedAcquisition[] {
    const isCounted = haveRoom(decided)
    return decided.map((each, index) => {
      const demand = required(demands[index], 'the demand of an acquisition')
      if (!isCounted) return new SharedAcquisition(this, demand, each)
      if (demand.window !== null) return new CountedInWindow(this, demand, each)
      const taken = new TakenPlace(this, demand, each, place)
      this.#places.add(taken.place)
      return taken
    })
  }

  /** Settles with 0 what a call has counted whose reply comes too late. */
  #settleLate (call: Call, reply: Reply): void {
    for (const [index, request] of call.requests.entries()) {
      for (const acquisition of this.#acquisitionsOf(request, reply[index])) {
        acquisition.settle(0).catch(() => {})
      }
    }
  }

  /** Nothing is sent again that may have run, but for what can be done twice. */
  #fail ({ freed, renewed, settlements, requests }: Batch, call: Call, error: unknown): void {
    this.#places.renew(renewed)
    this.#freed.addAgain(call.freed)
    const reason = error instanceof NotRunError ? error.cause : error
    for (const { reject } of [...freed, ...requests]) reject(reason)
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
    const places = demands.filter(({ window }) => window === null)
    this.#freed.addAgain(
      places.map(({ counters, callerKey }) => ({ counters, callerKey, name }))
    )
  }

  #renewAll (): void {
    this.#renewedAt = this.#clock()
    this.#places.renewAll()
  }

  #renewWhileHolding (): void {
    if (this.#places.areNone) {
      clearInterval(this.#renewal)
      this.#renewal = undefined
      return
    }
    this.#renewal ??= setInterval(() => {
      this.#renewAll()
      this.#start()
    }, renewalInterval).unref()
  }
}
