import { randomBytes } from 'node:crypto'
import { TimeLimit } from '../../time-limit.js'
import type { Acquisition, Demand } from '../store.js'
import type { Call, Decided, Driver, Holding, Release, StoredRequest } from './driver.js'
import { Holdings, type HeldPlaces } from './holdings.js'

// Bounds how long a call keeps the server busy, and how many decisions fail together.
const mostInCall = 128

// How long a call may take, in milliseconds, because a connection can become silent without being closed, and how long a request may wait
// for one.
const longestWait = 5_000
const timeLimit = new TimeLimit(longestWait)

// Numbers that this process uses once each. They begin anywhere, so that they differ from those of other processes.
let lastNumber = randomBytes(6).readUIntBE(0, 6)

interface Waiting<Item, Result> {
  readonly item: Item
  readonly since: number
  resolve (result: Result): void
  reject (error: unknown): void
}

interface Asked { readonly demands: readonly Demand[], asked: number }

// What an acquisition has counted and can still be given back, and how.
const counted = new WeakMap<Acquisition, { readonly demand: Demand, left: number, giveBack (amount: number): Promise<void> }>()

/** Gives back a part of what an acquisition has counted. Returns for which demand; undefined if nothing is left. */
export async function release (acquisition: Acquisition, amount: number): Promise<Demand | undefined> {
  const known = counted.get(acquisition)
  const given = Math.min(amount, known?.left ?? 0)
  if (known === undefined || given <= 0) return undefined
  known.left -= given
  await known.giveBack(given)
  return known.demand
}

/**
 * The callers that one driver serves. A call to the driver takes with it what has arrived since the one before. Calls follow each other, so that each
 * one states truly how many places this process holds.
 */
export class Shard {
  readonly driver: Driver
  readonly holdings = new Holdings((places) => { this.#change(places).catch(() => {}) })
  readonly #clock: (() => number) | undefined
  readonly #holder = randomBytes(12).toString('base64url')
  #requests: Waiting<Asked, readonly Acquisition[]>[] = []
  #changes: Waiting<Release | HeldPlaces, void>[] = []
  #isSending = false

  constructor (driver: Driver, clock: (() => number) | undefined) {
    this.driver = driver
    this.#clock = clock
  }

  /** The time of the store's own clock; null for the server's. */
  get time (): number | null {
    return this.#clock === undefined ? null : Math.floor(this.#clock())
  }

  acquire (demands: readonly Demand[]): Promise<readonly Acquisition[]> {
    return new Promise((resolve, reject) => {
      this.#requests.push({ item: { demands, asked: 0 }, since: performance.now(), resolve, reject })
      this.#start()
    })
  }

  async #leave (places: HeldPlaces, amount: number): Promise<void> {
    if (!this.holdings.has(places)) return
    places.held -= amount
    await this.#change(places)
  }

  #change (item: Release | HeldPlaces): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#changes.push({ item, since: performance.now(), resolve, reject })
      this.#start()
    })
  }

  #start (): void {
    if (this.#isSending) return
    this.#isSending = true
    this.#sendAll().catch(() => {})
  }

  async #sendAll (): Promise<void> {
    while (this.#requests.length + this.#changes.length > 0) {
      // What arrives in one turn of the event loop goes into the same call.
      await new Promise((resolve) => { setImmediate(resolve) })
      // On the server they can run in the other order. The greater number is that of the places that can only have become more.
      await Promise.all([this.#sendChanges(take(this.#changes)), this.#sendRequests(take(this.#requests))])
    }
    this.#isSending = false
  }

  async #sendChanges (changes: readonly Waiting<Release | HeldPlaces, void>[]): Promise<void> {
    if (changes.length === 0) return
    const releases: Release[] = []
    const told = new Map<HeldPlaces, Holding>()
    for (const { item } of changes) {
      if (!('held' in item)) releases.push(item)
      else if (this.holdings.has(item)) told.set(item, { ...item })
    }
    try {
      await timeLimit.within(this.driver.release(releases, [...told.values()], this.#call()))
      for (const { resolve } of changes) resolve()
    } catch (error) {
      for (const { reject } of changes) reject(error)
      return
    }
    for (const [places, { held }] of told) this.holdings.dropUnused(places, held)
  }

  async #sendRequests (requests: readonly Waiting<Asked, readonly Acquisition[]>[]): Promise<void> {
    if (requests.length === 0) return
    try {
      const call = this.#call()
      const stored = requests.map(({ item }) => this.#stored(item))
      const decided = await timeLimit.within(this.driver.acquire(stored, call))
      requests.forEach((waiting, index) => { this.#settle(waiting, stored[index], decided[index]) })
    } catch (error) {
      for (const { reject } of requests) reject(error)
    }
  }

  #settle (
    waiting: Waiting<Asked, readonly Acquisition[]>, stored: StoredRequest | undefined, decided: readonly Decided[] | undefined
  ): void {
    const { item } = waiting
    if (decided === undefined) {
      item.asked += 1
      this.#requests.push(waiting)
      return
    }
    const isCounted = decided.every(({ admitted }) => admitted)
    item.demands.forEach((demand, index) => {
      const acquisition: Decided = Object(decided[index])
      const { counters, callerKey, cost, window } = demand
      if (window === null) {
        const places = this.holdings.of(demand)
        if (isCounted) places.held += cost
        this.holdings.dropUnused(places, Number(stored?.held[index]))
        if (isCounted) counted.set(acquisition, { demand, left: cost, giveBack: (amount) => this.#leave(places, amount) })
      } else if (isCounted && cost > 0) {
        const { overflow, nonce } = acquisition
        const giveBack = (amount: number) => this.#change({ counters, callerKey, overflow, nonce, amount })
        counted.set(acquisition, { demand, left: cost, giveBack })
      }
    })
    waiting.resolve(decided)
  }

  /** A call that fails leaves the places known, so that the next renewal tells the server how many there are. */
  #stored ({ demands, asked }: Asked): StoredRequest {
    const nonce = lastNumber + 1
    lastNumber += demands.length
    return { demands, nonce, asked, held: demands.map((demand) => demand.window === null ? this.holdings.of(demand).held : 0) }
  }

  #call (): Call {
    lastNumber += 1
    return { time: this.time, holder: this.#holder, sequence: lastNumber }
  }
}

/**
 * Takes what goes into the next call: requests that were asked before share none with others, because they can take the server longer. What has waited for
 * too long is rejected: its request has got its response without it.
 */
function take<Item extends object, Result> (waiting: Waiting<Item, Result>[]): Waiting<Item, Result>[] {
  const earliest = performance.now() - longestWait
  const isAskedAgain = ({ item }: Waiting<Item, Result>): boolean => 'asked' in item && item.asked !== 0
  const [first] = waiting
  const other = first === undefined ? -1 : waiting.findIndex((each) => isAskedAgain(each) !== isAskedAgain(first))
  return waiting.splice(0, other === -1 ? mostInCall : Math.min(other, mostInCall)).filter(({ since, reject }) => {
    if (since < earliest) reject(new Error(`no response within ${longestWait} ms`))
    return since >= earliest
  })
}
