import { doesNotThrow, ok } from 'node:assert/strict'
import { localAuthentication } from '../caller/authentication.js'
import { callerKey } from '../caller/caller-key.js'
import { counterRetention, unlimited } from '../store/counter.js'
import { haveRoom } from '../store/side-by-side.js'
import {
  assertAcquisitions,
  type Acquisition,
  type CallerCount,
  type Demand,
  type QuotaStore
} from '../store/store.js'

/**
 * Calls a store. Returns what is the same for every correct store. `tested` is the store under test
 * if it was called before.
 */
type Run = (store: QuotaStore, tested?: QuotaStore) => unknown

/** A call of a function, if a store has it. */
export class Operation {
  /** What each store returned, if this is a request. */
  readonly acquired = new Map<QuotaStore, readonly (Acquisition | null)[]>()

  constructor (
    readonly call: keyof QuotaStore,
    readonly run: Run,
    readonly demands: readonly Demand[] = []
  ) {}
}

/**
 * Callers of a shard: as many as it tracks, some that use its overflow counter meanwhile, all of
 * these, and as many more as it tracks.
 */
export type Callers = Readonly<
  Record<'tracked' | 'overflowing' | 'all' | 'later', readonly number[]>
>

/** Operations, and milliseconds by which the clock advances. */
export type Steps = (Operation | number | Steps)[]

export const flat = (steps: Steps): (Operation | number)[] =>
  steps.flatMap((step) => (Array.isArray(step) ? flat(step) : [step]))

export const range = (length: number, first = 0): number[] =>
  Array.from({ length }, (_, index) => first + index)

/** The fields that are the same for every store. A store can keep more in a result. */
const fieldsOf = ({ admitted, count, windowRemaining, end, overflow }: Partial<Acquisition>) => ({
  admitted,
  count,
  windowRemaining,
  end,
  overflow
})

export const [minute, hour, day] = [60_000, 3_600_000, 86_400_000]
/** Takes the place of the window's length in a quota of requests in flight. */
export const inFlight = Infinity

/** Creates the operations of a quota. Callers are numbers. Times are in milliseconds. */
export class Quota {
  /** How long a counter is kept after its last request. */
  readonly retention: number

  constructor (
    readonly counters: string,
    readonly window: number,
    readonly end: number | null = null
  ) {
    this.retention = counterRetention(window)
  }

  demand (number: number, limit = unlimited, cost = 1): Demand {
    const window = this.window === inFlight ? null : this.window
    const key = String(callerKey(localAuthentication(`caller ${number}`)))
    return { counters: this.counters, callerKey: key, limit, cost, window, end: this.end }
  }

  readonly acquire = (number: number, limit?: number, cost?: number): Operation =>
    request(this.demand(number, limit, cost))

  readonly visit = (numbers: readonly number[], limit?: number, cost?: number): Operation[] =>
    numbers.map((number) => this.acquire(number, limit, cost))

  readonly peek = (...numbers: readonly number[]): Operation[] =>
    numbers.map((number) => peek(this.demand(number)))

  readonly forget = (...numbers: readonly number[]): Operation[] =>
    numbers.map(
      (number) =>
        new Operation('forget', (store) =>
          store.forget?.(this.demand(number).callerKey, this.counters)
        )
    )

  /**
   * Finds what is counted for a caller, by a request that counts nothing or a place that is given
   * back. It opens a window.
   */
  count (number: number): Operation[] {
    const place = this.acquire(number)
    return this.window === inFlight ? [place, release(place)] : [this.acquire(number, unlimited, 0)]
  }

  /** Reads all pages. */
  list (): Operation {
    return new Operation('list', async (store) => {
      const listed = new Map<string, Partial<CallerCount>>()
      for (let pages = 1, cursor: string | null | undefined; cursor !== null; pages++) {
        ok(pages <= 100, 'list returned more than 100 pages')
        const { callers = [], cursor: next = null } = {
          ...(await store.list?.(this.counters, cursor))
        }
        for (const { callerKey, count, windowRemaining } of callers) {
          listed.set(callerKey, { count, windowRemaining })
        }
        cursor = next
      }
      return listed
    })
  }

  inspect (): Operation {
    return new Operation('inspect', async (store) => {
      const state = await store.inspect?.(this.counters)
      return state && { trackedCallers: state.trackedCallers, sweeps: state.sweeps }
    })
  }
}

/** The places that each store has given, whether they were released or not. */
export const places = new WeakMap<QuotaStore, Acquisition[]>()

/**
 * A request. The other store is not asked about the demands about which the store under test was
 * not asked.
 */
export function request (...demands: readonly Demand[]): Operation {
  const operation: Operation = new Operation(
    'acquire',
    async (store, tested) => {
      const known = tested && operation.acquired.get(tested)
      const asked = demands.filter((_, index) => known?.[index] !== null)
      const acquisitions = await store.acquire(asked)
      doesNotThrow(() => {
        assertAcquisitions(acquisitions, asked)
      })
      operation.acquired.set(store, acquisitions)
      const taken = haveRoom(acquisitions)
        ? acquisitions.filter((_, index) => asked[index]?.window === null)
        : []
      places.set(store, [...(places.get(store) ?? []), ...taken])
      return acquisitions.filter((acquisition) => acquisition !== null).map(fieldsOf)
    },
    demands
  )
  return operation
}

export function peek (demand: Demand): Operation {
  return new Operation(
    'peek',
    async (store) => {
      const peeked = await store.peek?.(demand)
      return peeked && fieldsOf(peeked)
    },
    [demand]
  )
}

/** Gives back what one of a request's demands has counted. */
export function release ({ acquired, demands }: Operation, amount = 1, index = 0): Operation {
  return new Operation(
    'release',
    async (store) => {
      const acquisition = acquired.get(store)?.[index]
      if (acquisition?.admitted === true) await store.release?.(acquisition, amount)
    },
    demands
  )
}

export const clearCounters = new Operation('clearCounters', (store) => store.clearCounters?.())

/**
 * Operations at once. Only how many are admitted, and how many of them on overflow counters, is the
 * same for every store.
 */
export function atOnce (...operations: readonly Operation[]): Operation {
  return new Operation(
    operations.some(({ call }) => call === 'release') ? 'release' : 'acquire',
    async (store) => {
      await Promise.all(operations.map((each) => each.run(store)))
      const results = operations.map(({ acquired }) => acquired.get(store) ?? [])
      return results
        .map(
          (result) =>
            result.every((each) => each?.admitted === true) &&
            result.map((each) => each?.overflow).join()
        )
        .sort()
    }
  )
}
