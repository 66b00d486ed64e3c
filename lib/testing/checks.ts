import { deepStrictEqual, doesNotThrow, ok } from 'node:assert/strict'
import { localAuthentication } from '../caller/authentication.js'
import { callerKey } from '../caller/caller-key.js'
import { counterRetention } from '../store/counter.js'
import { assertAcquisitions, type Acquisition, type CallerCount, type Demand, type QuotaCount, type QuotaStore } from '../store/store.js'
import type { VirtualClock } from './virtual-clock.js'

/** A check of a rule. */
export interface Check {
  /** The rule, as a sentence whose subject, unless it has one, is the store. */
  readonly name: string
  /** The caller cap of the store under test. */
  readonly cap: number
  /** Rejects with an `AssertionError` if the store breaks the rule. */
  run (subject: Subject): Promise<void>
}

export const smallCap = 4

/** Enough callers to reach all shards of a store, because each shard has its own sweeps and overflow counter. */
export const everyShard = 32

export const [minute, hour, day] = [60_000, 3_600_000, 86_400_000]

/** Takes the place of the window's length in a quota of requests in flight. */
export const inFlight = Infinity

/** The store under test lacks a function, so a check of it passes. */
export class MissingFunction extends Error {}

/** The first request of a caller. */
interface Visit { readonly number: number, readonly acquisition: Acquisition }

/** A store under test, and one of its quotas. Callers are numbers. Times are in milliseconds. */
export class Subject {
  readonly clock: VirtualClock
  readonly counters: string
  readonly window: number
  /** How long a counter is kept after its last request. */
  readonly retention: number
  /** The places that were taken. They are given back after the check, because a store on a server would renew them. */
  readonly places: Acquisition[]
  readonly #store: QuotaStore

  constructor (store: QuotaStore, clock: VirtualClock, counters: string, window: number, places: Acquisition[] = []) {
    this.#store = store
    this.clock = clock
    this.counters = counters
    this.window = window
    this.retention = counterRetention(window)
    this.places = places
  }

  /** The functions of the store. Calling one that it lacks throws `MissingFunction`. */
  get store (): Required<QuotaStore> {
    return new Proxy(this.#store, {
      get (store, name) {
        const storeFunction: unknown = Reflect.get(store, name)
        if (typeof storeFunction !== 'function') throw new MissingFunction()
        return storeFunction.bind(store)
      }
    }) as Required<QuotaStore>
  }

  quota (counters: string, window: number): Subject {
    return new Subject(this.#store, this.clock, counters, window, this.places)
  }

  demand (number: number, limit = Number.MAX_SAFE_INTEGER, cost = 1): Demand {
    const window = this.window === inFlight ? null : this.window
    return { counters: this.counters, callerKey: caller(number), limit, cost, window, end: null }
  }

  async acquireAll (demands: readonly Demand[]): Promise<readonly (Acquisition | null)[]> {
    const acquisitions = await this.store.acquire(demands)
    doesNotThrow(() => { assertAcquisitions(acquisitions, demands) })
    const places = acquisitions.filter((place, index) => place?.admitted === true && demands[index]?.window === null)
    this.places.push(...places as Acquisition[])
    return acquisitions
  }

  async acquireOne (demand: Demand): Promise<Acquisition> {
    const [acquisition] = await this.acquireAll([demand])
    ok(acquisition, 'the only demand of a request was not asked')
    return acquisition
  }

  async acquire (number: number, limit?: number, cost?: number): Promise<Acquisition> {
    return this.acquireOne(this.demand(number, limit, cost))
  }

  /** Returns what is counted for a caller, by a request that counts nothing or a place that is given back. It opens a window. */
  async countOf (number: number): Promise<number> {
    if (this.window !== inFlight) return (await this.acquire(number, undefined, 0)).count
    const place = await this.acquire(number)
    await this.store.release(place, 1)
    return place.count - 1
  }

  /** Sends one request for each of `everyShard` callers, starting with the caller `first`. */
  async visit (first: number, limit?: number): Promise<Visit[]> {
    return inTurn(callersFrom(first), async (number) => ({ number, acquisition: await this.acquire(number, limit) }))
  }

  async trackedOf (first: number): Promise<number> {
    return (await this.visit(first)).filter(({ acquisition }) => !acquisition.overflow).length
  }

  /** Fills a store with the small cap. The others use an overflow counter. */
  async fill (): Promise<{ tracked: [Visit, ...Visit[]], overflowing: [Visit, ...Visit[]] }> {
    const visits = await this.visit(0)
    const those = (isOverflow: boolean): [Visit, ...Visit[]] => {
      const [first, ...others] = visits.filter(({ acquisition }) => acquisition.overflow === isOverflow)
      ok(first, 'the caller cap is not between 1 and the number of callers')
      return [first, ...others]
    }
    return { tracked: those(false), overflowing: those(true) }
  }

  async peek (number: number): Promise<QuotaCount | null> {
    return this.store.peek(this.demand(number))
  }

  async forget (number: number): Promise<void> {
    await this.store.forget(caller(number), this.counters)
  }

  async inspect () {
    const { trackedCallers, sweeps } = await this.store.inspect(this.counters)
    return { trackedCallers, sweeps }
  }

  /** Returns the callers on all pages. */
  async list (): Promise<Map<string, Omit<CallerCount, 'callerKey'>>> {
    const listed = new Map<string, Omit<CallerCount, 'callerKey'>>()
    for (let pages = 1, cursor: string | null | undefined; cursor !== null; pages++) {
      ok(pages <= 100, 'list returned more than 100 pages')
      const page = await this.store.list(this.counters, cursor)
      for (const { callerKey, count, windowRemaining } of page.callers) listed.set(callerKey, { count, windowRemaining })
      cursor = page.cursor
    }
    return listed
  }
}

export function check (name: string, run: Check['run']): Check {
  return { name, cap: 10_000, run }
}

/** Returns a check of stores with a caller cap that is so small that some of `everyShard` callers use an overflow counter. */
export function checkAtCap (name: string, run: Check['run']): Check {
  return { name, cap: smallCap, run }
}

export function admitted (count: number, windowRemaining: number | null): Acquisition {
  return { admitted: true, count, windowRemaining, overflow: false }
}

export function rejected (count: number, windowRemaining: number | null): Acquisition {
  return { ...admitted(count, windowRemaining), admitted: false }
}

/** Asserts that a result has these fields. A store can keep more in it. */
export function assertResult<Result extends QuotaCount> (actual: Result | null | undefined, expected: NoInfer<Partial<Result>>): void {
  const { ...fields } = Object(actual)
  deepStrictEqual(Object.fromEntries(Object.keys(expected).map((name) => [name, fields[name]])), expected)
}

export function isAdmitted (acquisitions: readonly (Acquisition | null)[]): boolean {
  return acquisitions.every((acquisition) => acquisition?.admitted === true)
}

/** Calls a function for each item, one after another. */
export async function inTurn<Item, Result> (items: readonly Item[], call: (item: Item) => Result | Promise<Result>): Promise<Result[]> {
  const results: Result[] = []
  for (const item of items) results.push(await call(item))
  return results
}

/** Calls a function many times at once. */
export async function burst<Result> (call: (index: number) => Result | Promise<Result>): Promise<Result[]> {
  return Promise.all(callersFrom(0).map(async (index) => call(index)))
}

export function caller (number: number): string {
  return String(callerKey(localAuthentication(`caller ${number}`)))
}

export function callersFrom (first: number): number[] {
  return Array.from({ length: everyShard }, (_, index) => first + index)
}
