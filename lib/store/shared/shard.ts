import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { TimeLimit, TimeLimitError } from '../../time-limit.js'
import { haveRoom } from '../side-by-side.js'
import type { Acquisition, Demand } from '../store.js'
import type { Call, Decided, Driver, Holding, Release } from './driver.js'
import { Holdings, type HeldPlaces } from './holdings.js'

// Bounds how long a call keeps the server busy, and how many decisions fail together.
const mostInCall = 128

// How long a call may take, in milliseconds, because a connection can become silent without being closed, and how long anything may wait
// for one.
const longestWait = 5_000
const timeLimit = new TimeLimit(longestWait)

// Numbers that this process uses once each. They begin anywhere, so that they differ from those of other processes.
let lastNumber = randomBytes(6).readUIntBE(0, 6)

/** What waits for the next call. */
interface Waiting<Item, Result> {
  readonly item: Item
  readonly since: number
  /** How often it was sent before. */
  asked: number
  resolve (result: Result): void
  reject (error: unknown): void
}

type Request = Waiting<readonly Demand[], readonly Acquisition[]>
type Change = Waiting<Release | HeldPlaces, void>

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
  readonly holdings = new Holdings((places) => { this.#change(places).catch(() => {}) })
  readonly #driver: Driver
  readonly #clock: (() => number) | undefined
  readonly #holder = randomBytes(12).toString('base64url')
  readonly #requests: Request[] = []
  readonly #changes: Change[] = []
  #sending: Promise<void> | undefined

  /** @param clock The store's own clock; undefined for the server's. */
  constructor (driver: Driver, clock: (() => number) | undefined) {
    this.#driver = driver
    this.#clock = clock
  }

  /** Asks the driver at once, with the time of the store's own clock. */
  ask<Result> (question: (driver: Driver, time: Call['time']) => Promise<Result>): Promise<Result> {
    return timeLimit.within(question(this.#driver, this.#time()))
  }

  acquire (demands: readonly Demand[]): Promise<readonly Acquisition[]> {
    return this.#enqueue(this.#requests, demands)
  }

  #change (item: Change['item']): Promise<void> {
    return this.#enqueue(this.#changes, item)
  }

  #enqueue<Item, Result> (queue: Waiting<Item, Result>[], item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      queue.push({ item, since: performance.now(), asked: 0, resolve, reject })
      this.#sending ??= this.#sendAll()
    })
  }

  async #sendAll (): Promise<void> {
    while (this.#requests.length + this.#changes.length > 0) {
      // What arrives in one turn of the event loop goes into the same call.
      await turn()
      // On the server they can run in the other order. The greater number is that of the places that can only have become more.
      await Promise.all([send(this.#changes, (changes) => this.#apply(changes)), send(this.#requests, (requests) => this.#decide(requests))])
    }
    this.#sending = undefined
  }

  async #apply (changes: readonly Change[]): Promise<void> {
    const releases: Release[] = []
    const told = new Map<HeldPlaces, Holding>()
    for (const { item } of changes) {
      if (!('held' in item)) releases.push(item)
      else if (this.holdings.has(item)) told.set(item, { ...item })
    }
    await this.ask((driver, time) => driver.release(releases, [...told.values()], this.#call(time)))
    for (const { resolve } of changes) resolve()
    for (const [places, { held }] of told) this.holdings.dropUnused(places, held)
  }

  /** A call that fails leaves the places known, so that the next renewal tells the server how many there are. */
  async #decide (requests: readonly Request[]): Promise<void> {
    const stored = requests.map(({ item: demands, asked }) => {
      const nonce = lastNumber + 1
      lastNumber += demands.length
      return { demands, nonce, asked, held: demands.map((demand) => demand.window === null ? this.holdings.of(demand).held : 0) }
    })
    const decided = await this.ask((driver, time) => driver.acquire(stored, this.#call(time)))
    requests.forEach((request, index) => {
      const acquisitions = decided[index]
      if (acquisitions === undefined) {
        request.asked += 1
        this.#requests.push(request)
      } else {
        this.#settle(request.item, acquisitions, stored[index]?.held)
        request.resolve(acquisitions)
      }
    })
  }

  /** Notes what was counted, for which the server was told these numbers of places. */
  #settle (demands: readonly Demand[], acquisitions: readonly Decided[], told?: readonly number[]): void {
    const isCounted = haveRoom(acquisitions)
    acquisitions.forEach((acquisition, index) => {
      const demand: Demand = Object(demands[index])
      const { counters, callerKey, cost, window } = demand
      const { overflow, nonce } = acquisition
      const places = window === null ? this.holdings.of(demand) : undefined
      const giveBack = async (amount: number): Promise<void> => {
        if (places === undefined) return this.#change({ counters, callerKey, overflow, nonce, amount })
        if (!this.holdings.has(places)) return
        places.held -= amount
        await this.#change(places)
      }
      if (isCounted) counted.set(acquisition, { demand, left: cost, giveBack })
      if (places === undefined) return
      if (isCounted) places.held += cost
      this.holdings.dropUnused(places, Number(told?.[index]))
    })
  }

  #time (): Call['time'] {
    return this.#clock === undefined ? null : Math.floor(this.#clock())
  }

  #call (time: Call['time']): Call {
    lastNumber += 1
    return { time, holder: this.#holder, sequence: lastNumber }
  }
}

/**
 * Sends what goes into the next call: requests that were sent before share none with others, because they can take the server longer. What has waited
 * for too long is rejected: its request has got its response without it.
 */
async function send<Item, Result> (
  queue: Waiting<Item, Result>[], call: (batch: readonly Waiting<Item, Result>[]) => Promise<void>
): Promise<void> {
  const other = queue.findIndex(({ asked }) => asked !== queue[0]?.asked)
  const earliest = performance.now() - longestWait
  const batch = queue.splice(0, other === -1 ? mostInCall : Math.min(other, mostInCall)).filter(({ since, reject }) => {
    if (since < earliest) reject(new TimeLimitError(longestWait))
    return since >= earliest
  })
  try {
    if (batch.length > 0) await call(batch)
  } catch (error) {
    for (const { reject } of batch) reject(error)
  }
}
