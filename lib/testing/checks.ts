import { AssertionError, deepStrictEqual, doesNotThrow } from 'node:assert/strict'
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

/** A caller cap that no check reaches. */
export const largeCap = 10_000

/** A caller cap that is so small that some of `everyShard` callers use an overflow counter. */
export const smallCap = 4

/** Enough callers to reach all shards of a store, because each shard has its own sweeps and overflow counter. */
export const everyShard = 32

/** A limit that always has room. */
export const unlimited = Number.MAX_SAFE_INTEGER

export const [minute, hour, day] = [60_000, 3_600_000, 86_400_000]

/** The store under test lacks a function, so a check of it passes. */
export class MissingFunction extends Error {}

/** The first request of a caller, numbered as in the checks. */
export interface Visit {
  readonly number: number
  readonly acquisition: Acquisition
}

/** A store under test, and one of its quotas. Callers are numbers. Times are in milliseconds. */
export class Subject {
  readonly clock: VirtualClock
  readonly counters: string
  /** The length of the window. */
  readonly window: number
  /** How long a counter is kept after its last request. */
  readonly retention: number
  readonly #store: QuotaStore

  constructor (store: QuotaStore, clock: VirtualClock, counters: string, window: number) {
    this.#store = store
    this.clock = clock
    this.counters = counters
    this.window = window
    this.retention = counterRetention(window)
  }

  /** The functions of the store. One that it lacks throws `MissingFunction`. */
  get store (): Required<QuotaStore> {
    return new Proxy(this.#store, {
      get (store, name) {
        const storeFunction: unknown = Reflect.get(store, name)
        if (typeof storeFunction !== 'function') throw new MissingFunction()
        return storeFunction.bind(store)
      }
    }) as Required<QuotaStore>
  }

  /** Returns another quota of the store. */
  quota (counters: string, window: number): Subject {
    return new Subject(this.#store, this.clock, counters, window)
  }

  demand (number: number, limit = unlimited, cost = 1): Demand {
    return { counters: this.counters, callerKey: caller(number), limit, cost, window: this.window, end: null }
  }

  /** Sends a request with several demands. */
  async acquireAll (demands: readonly Demand[]): Promise<readonly (Acquisition | null)[]> {
    const acquisitions = await this.#store.acquire(demands)
    doesNotThrow(() => { assertAcquisitions(acquisitions, demands) })
    return acquisitions
  }

  async acquireOne (demand: Demand): Promise<Acquisition> {
    const [acquisition] = await this.acquireAll([demand])
    if (acquisition == null) throw new AssertionError({ message: 'the only demand of a request was not asked' })
    return acquisition
  }

  async acquire (number: number, limit?: number, cost?: number): Promise<Acquisition> {
    return this.acquireOne(this.demand(number, limit, cost))
  }

  /** Sends one request for each of `everyShard` callers, starting with the caller `first`. */
  async visit (first: number, limit?: number): Promise<Visit[]> {
    return inTurn(callersFrom(first), async (number) => ({ number, acquisition: await this.acquire(number, limit) }))
  }

  /** Sends such requests and returns how many callers have a counter of their own. */
  async trackedOf (first: number): Promise<number> {
    return (await this.visit(first)).filter(({ acquisition }) => !acquisition.overflow).length
  }

  /** Fills a store with the small cap and returns the first requests of the callers with a counter of their own, and of the others. */
  async fill (limit?: number): Promise<{ tracked: [Visit, ...Visit[]], overflowing: [Visit, ...Visit[]] }> {
    const visits = await this.visit(0, limit)
    const [tracked, ...othersTracked] = visits.filter(({ acquisition }) => !acquisition.overflow)
    const [overflowing, ...othersOverflowing] = visits.filter(({ acquisition }) => acquisition.overflow)
    if (tracked === undefined || overflowing === undefined) throw new AssertionError({ message: 'the caller cap is not between 1 and the number of callers' })
    return { tracked: [tracked, ...othersTracked], overflowing: [overflowing, ...othersOverflowing] }
  }

  peek (number: number): QuotaCount | null | Promise<QuotaCount | null> {
    return this.store.peek(this.demand(number))
  }

  async forget (number: number): Promise<void> {
    await this.store.forget(caller(number), this.counters)
  }

  /** Returns the callers on all pages. */
  async list (): Promise<Map<string, Omit<CallerCount, 'callerKey'>>> {
    const { store, counters } = this
    const listed = new Map<string, Omit<CallerCount, 'callerKey'>>()
    let page = await store.list(counters)
    for (let pages = 1; ; pages++) {
      for (const { callerKey, count, windowRemaining } of page.callers) listed.set(callerKey, { count, windowRemaining })
      if (page.cursor === null) return listed
      if (pages > 100) throw new AssertionError({ message: `list returned ${pages} pages of ${listed.size} callers` })
      page = await store.list(counters, page.cursor)
    }
  }
}

/** Returns a check of stores with this caller cap. */
export function check (name: string, cap: number, run: Check['run']): Check {
  return { name, cap, run }
}

/** The result of an admitted request that a caller's own counter has counted. */
export function admitted (count: number, windowRemaining: number | null): Acquisition {
  return { admitted: true, count, windowRemaining, overflow: false }
}

/** The result of a request that a caller's own counter has rejected. */
export function rejected (count: number, windowRemaining: number | null): Acquisition {
  return { ...admitted(count, windowRemaining), admitted: false }
}

/** Asserts that a result has these fields. A store can keep more in it. */
export function assertResult<Result extends QuotaCount> (actual: Result, expected: NoInfer<Result>): void {
  deepStrictEqual(Object.fromEntries(Object.keys(expected).map((name) => [name, Reflect.get(actual, name)])), expected)
}

/** Returns how many requests were admitted, each with one or several demands. */
export function numberAdmitted (requests: readonly (Acquisition | readonly (Acquisition | null)[])[]): number {
  return requests.filter((request) => [request].flat().every((acquisition) => acquisition?.admitted === true)).length
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

/** Returns the key of a caller in the checks. */
export function caller (number: number): string {
  return String(callerKey(localAuthentication(`caller ${number}`)))
}

/** Returns `everyShard` numbers of callers, starting with `first`. */
export function callersFrom (first: number): number[] {
  return Array.from({ length: everyShard }, (_, index) => first + index)
}
