import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { within } from '../../time-limit.js'
import { haveRoom } from '../side-by-side.js'
import type { Acquisition, Demand } from '../store.js'
import { nameOf, type Call, type Caller, type Decided, type Driver, type Holding, type Release } from './driver.js'
import { longestWait, Queue } from './queue.js'

// A lease lasts three times as long, so two renewals can fail.
const renewalInterval = 10_000

// Numbers that this process uses once each. They begin anywhere, so that they differ from those of other processes.
let lastNumber = randomBytes(6).readUIntBE(0, 6)

/** What an acquisition has counted and can still be given back, and how. */
export const counted = new WeakMap<Acquisition, { readonly demand: Demand, left: number, giveBack (amount: number): Promise<unknown> }>()

/**
 * The callers that one driver serves. A call to the driver takes with it what has arrived since the one before. Calls follow each other, so
 * that each one states truly how many places this process holds: their number and no difference, so the next one corrects it.
 */
export class Shard {
  readonly #driver: Driver
  readonly #time: () => Call['time']
  readonly #holder = randomBytes(12).toString('base64url')
  readonly #requests = new Queue<readonly Demand[], readonly Acquisition[]>()
  readonly #changes = new Queue<Release | Holding, true>()
  #sending: Promise<void> | undefined
  // The callers for whom the server may have a number of places other than 0.
  readonly #holdings = new Map<string, Holding>()
  #renewal: NodeJS.Timeout | undefined

  /** @param time Returns the time of the store's own clock; null for the server's clock. */
  constructor (driver: Driver, time: () => Call['time']) {
    this.#driver = driver
    this.#time = time
  }

  /** Asks the driver at once. */
  ask<Result> (question: (driver: Driver, time: Call['time']) => Promise<Result>): Promise<Result> {
    return within(longestWait, question(this.#driver, this.#time()))
  }

  acquire (demands: readonly Demand[]): Promise<readonly Acquisition[]> {
    this.#sending ??= this.#sendAll()
    return this.#requests.add(demands)
  }

  /** How many places of the caller this process holds. */
  placesOf (caller: Caller): number {
    return this.#holdings.get(nameOf(caller))?.held ?? 0
  }

  dropPlaces (): void {
    this.#holdings.clear()
    clearInterval(this.#renewal)
    this.#renewal = undefined
  }

  #change (item: Release | Holding): Promise<true> {
    this.#sending ??= this.#sendAll()
    return this.#changes.add(item)
  }

  async #sendAll (): Promise<void> {
    do {
      // What arrives in one turn of the event loop goes into the same call.
      await turn()
      const changed = this.#changes.send((changes) => this.#apply(changes))
      // On the server they can run in the other order. The greater number is that of the places that can only have become more.
      await Promise.all([changed, this.#requests.send((requests, asked) => this.#decide(requests, asked))])
    } while (this.#changes.waiting.length + this.#requests.waiting.length > 0)
    this.#sending = undefined
  }

  async #apply (changes: readonly (Release | Holding)[]): Promise<true[]> {
    const releases: Release[] = []
    const told = new Map<Holding, Holding>()
    for (const change of changes) {
      if (!('held' in change)) releases.push(change)
      else if (this.#isHeld(change)) told.set(change, { ...change })
    }
    await this.ask((driver, time) => driver.release(releases, [...told.values()], this.#call(time)))
    for (const [holding, { held }] of told) this.#dropUnused(holding, held)
    return changes.map(() => true)
  }

  /** A call that fails leaves the places known, so that the next renewal tells the server how many there are. */
  async #decide (requests: readonly (readonly Demand[])[], asked: number): Promise<readonly (readonly Decided[] | undefined)[]> {
    const stored = requests.map((demands) => {
      const nonce = lastNumber + 1
      lastNumber += demands.length
      return { demands, nonce, asked, held: demands.map((demand) => demand.window === null ? this.#holdingOf(demand).held : 0) }
    })
    const decided = await this.ask((driver, time) => driver.acquire(stored, this.#call(time)))
    stored.forEach(({ demands, held }, index) => {
      const acquisitions = decided[index] ?? []
      const isCounted = haveRoom(acquisitions)
      acquisitions.forEach((acquisition, each) => { this.#note(Object(demands[each]), acquisition, isCounted, Number(held[each])) })
    })
    return decided
  }

  /** Notes what was decided on a demand, of whose caller the server was told a number of places. */
  #note (demand: Demand, acquisition: Decided, isCounted: boolean, told: number): void {
    const holding = demand.window === null ? this.#holdingOf(demand) : undefined
    if (isCounted) {
      if (holding !== undefined) holding.held += demand.cost
      counted.set(acquisition, { demand, left: demand.cost, giveBack: (amount) => this.#giveBack(demand, acquisition, holding, amount) })
    }
    if (holding !== undefined) this.#dropUnused(holding, told)
  }

  async #giveBack ({ counters, callerKey }: Demand, counted: Decided, holding: Holding | undefined, amount: number): Promise<void> {
    if (holding === undefined) {
      await this.#change({ counters, callerKey, overflow: counted.overflow, nonce: counted.nonce, amount })
    } else if (this.#isHeld(holding)) {
      holding.held -= amount
      await this.#change(holding)
    }
  }

  /** Returns the places of a caller, whose lease is renewed until they are dropped. */
  #holdingOf ({ counters, callerKey }: Caller): Holding {
    const name = nameOf({ counters, callerKey })
    const holding = this.#holdings.get(name) ?? { counters, callerKey, held: 0 }
    this.#holdings.set(name, holding)
    const renew = (each: Holding): void => { this.#change(each).catch(() => {}) }
    this.#renewal ??= setInterval(() => { this.#holdings.forEach(renew) }, renewalInterval).unref()
    return holding
  }

  #isHeld (holding: Holding): boolean {
    return this.#holdings.get(nameOf(holding)) === holding
  }

  /** Drops the places if there are none and the server was told so. If it was told another number, a change of it is still to be sent. */
  #dropUnused (holding: Holding, told: number): void {
    if (holding.held === 0 && told === 0 && this.#isHeld(holding)) this.#holdings.delete(nameOf(holding))
    if (this.#holdings.size === 0) this.dropPlaces()
  }

  #call (time: Call['time']): Call {
    lastNumber += 1
    return { time, holder: this.#holder, sequence: lastNumber }
  }
}
