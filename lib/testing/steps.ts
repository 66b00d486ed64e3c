import { doesNotThrow, ok } from 'node:assert/strict'
import { localAuthentication } from '../caller/authentication.js'
import { callerKey } from '../caller/caller-key.js'
import { counterRetention, unlimited } from '../store/counter.js'
import { assertAcquisitions, type Acquisition, type CallerCount, type Demand, type QuotaStore } from '../store/store.js'

type Acquired = Map<Operation, readonly (Acquisition | null)[]>

/** A store and what it returned to each request. The memory store also has what the store under test returned. */
export interface Side { readonly store: QuotaStore, readonly acquired: Acquired, readonly tested?: Acquired }

/** A call of a store. */
export interface Operation {
  readonly call: keyof QuotaStore
  readonly demands: readonly Demand[]
  /** Calls the function, if the store has it. Returns what is the same for every correct store. */
  run (side: Side): Promise<unknown>
}

/** Operations, and milliseconds by which the clock advances. */
export type Steps = (Operation | number | Steps)[]

export function flat (steps: Steps): (Operation | number)[] {
  return steps.flatMap((step) => Array.isArray(step) ? flat(step) : [step])
}

export const [minute, hour, day] = [60_000, 3_600_000, 86_400_000]

/** Takes the place of the window's length in a quota of requests in flight. */
export const inFlight = Infinity

/** Creates the operations of a quota. Callers are numbers. Times are in milliseconds. */
export class Quota {
  /** How long a counter is kept after its last request. */
  readonly retention: number

  constructor (readonly counters: string, readonly window: number, readonly end: number | null = null) {
    this.retention = counterRetention(window)
  }

  demand (number: number, limit = unlimited, cost = 1): Demand {
    const window = this.window === inFlight ? null : this.window
    const key = String(callerKey(localAuthentication(`caller ${number}`)))
    return { counters: this.counters, callerKey: key, limit, cost, window, end: this.end }
  }

  acquire (number: number, limit?: number, cost?: number): Operation {
    return request(this.demand(number, limit, cost))
  }

  visit (numbers: readonly number[], limit?: number, cost?: number): Operation[] {
    return numbers.map((number) => this.acquire(number, limit, cost))
  }

  /** Finds what is counted for a caller, by a request that counts nothing or a place that is given back. It opens a window. */
  count (number: number): Operation[] {
    const place = this.acquire(number)
    return this.window === inFlight ? [place, release(place)] : [this.acquire(number, unlimited, 0)]
  }

  peek (...numbers: readonly number[]): Operation[] {
    return numbers.map((number) => peek(this.demand(number)))
  }

  forget (...numbers: readonly number[]): Operation[] {
    return numbers.map((number) => operation('forget', ({ store }) => store.forget?.(this.demand(number).callerKey, this.counters)))
  }

  /** Reads all pages. */
  list (): Operation {
    return operation('list', async ({ store }) => {
      const listed = new Map<string, Partial<CallerCount>>()
      for (let pages = 1, cursor: string | null | undefined; cursor !== null; pages++) {
        ok(pages <= 100, 'list returned more than 100 pages')
        const page = await store.list?.(this.counters, cursor)
        for (const { callerKey, count, windowRemaining } of page?.callers ?? []) listed.set(callerKey, { count, windowRemaining })
        cursor = page?.cursor ?? null
      }
      return listed
    })
  }

  inspect (): Operation {
    return operation('inspect', async ({ store }) => {
      const state = await store.inspect?.(this.counters)
      return state && { trackedCallers: state.trackedCallers, sweeps: state.sweeps }
    })
  }
}

function operation (call: keyof QuotaStore, run: (side: Side) => unknown, demands: readonly Demand[] = []): Operation {
  return { call, demands, run: async (side) => run(side) }
}

/** A request. The other side leaves out the demands about which the store under test was not asked. */
export function request (...demands: readonly Demand[]): Operation {
  const acquire = operation('acquire', async ({ store, acquired, tested }) => {
    const asked = demands.filter((_, index) => tested?.get(acquire)?.[index] !== null)
    const acquisitions = await store.acquire(asked)
    doesNotThrow(() => { assertAcquisitions(acquisitions, asked) })
    acquired.set(acquire, acquisitions)
    return acquisitions.filter((acquisition) => acquisition !== null).map(fieldsOf)
  }, demands)
  return acquire
}

export function peek (demand: Demand): Operation {
  return operation('peek', async ({ store }) => {
    const peeked = await store.peek?.(demand)
    return peeked && fieldsOf(peeked)
  }, [demand])
}

/** Gives back what a request with one demand has counted. */
export function release (acquire: Operation, amount = 1): Operation {
  return operation('release', async ({ store, acquired }) => {
    const [acquisition] = acquired.get(acquire) ?? []
    if (acquisition?.admitted === true) await store.release?.(acquisition, amount)
  }, acquire.demands)
}

export const clearCounters = operation('clearCounters', ({ store }) => store.clearCounters?.())

/** Operations at once. Only how many are admitted, and how many of them on overflow counters, is the same for every store. */
export function atOnce (...operations: readonly Operation[]): Operation {
  return operation('acquire', async ({ store, acquired }) => {
    await Promise.all(operations.map((each) => each.run({ store, acquired })))
    const results = operations.map((each) => acquired.get(each) ?? [])
    return results.map((result) => result.every((each) => each?.admitted === true) && result.map((each) => each?.overflow).join()).sort()
  })
}

/** The fields that are the same for every store. A store can keep more in a result. */
function fieldsOf ({ admitted, count, windowRemaining, end, overflow }: Partial<Acquisition>) {
  return { admitted, count, windowRemaining, end, overflow }
}

export function range (length: number, first = 0): number[] {
  return Array.from({ length }, (_, index) => first + index)
}
