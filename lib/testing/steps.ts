import { doesNotThrow } from 'node:assert/strict'
import { loggableError } from '../log.js'
import { required } from '../required.js'
import { haveRoom } from '../store/side-by-side.js'
import { assertAcquisitions } from '../store/checks.js'
import type { Acquisition, Demand, QuotaStore } from '../store/store.js'

/**
 * Calls a store. Returns what is the same for every correct store. `tested` is the store under test
 * if it was called before.
 */
type Run = (store: QuotaStore, tested?: QuotaStore) => unknown

/** A call of one of a store's functions, if the store has it. */
export class StoreCall {
  /** What each store returned, if this is a request. */
  readonly acquired = new Map<QuotaStore, readonly (Acquisition | null)[]>()

  constructor (
    readonly name: keyof QuotaStore,
    readonly run: Run,
    readonly demands: readonly Demand[] = []
  ) {}
}

/** Calls, and milliseconds by which the clock advances. */
export type Steps = (StoreCall | number | Steps)[]

export function flat (steps: Steps): (StoreCall | number)[] {
  return steps.flatMap((step) => (Array.isArray(step) ? flat(step) : [step]))
}

/** Returns as many consecutive numbers. */
export function range (length: number, first = 0): number[] {
  return Array.from({ length }, (_, index) => first + index)
}

/** The fields that are the same for every store. A store can keep more in a result. */
function fieldsOf (result: Partial<Acquisition>) {
  const { admitted, granted, count, held, windowRemaining, end, overflow } = result
  return { admitted, granted, count, held, windowRemaining, end, overflow }
}

/** The places that each store has given, whether they were settled or not. */
export const places = new WeakMap<QuotaStore, Acquisition[]>()

/** Whether the plugin asks this of the store: one without `settle` cannot end what is held. */
function isAskedOf (store: QuotaStore, { window, isEstimate }: Demand): boolean {
  return store.settle !== undefined || (window !== null && !isEstimate)
}

/**
 * A request. The other store is not asked about the demands about which the store under test was
 * not asked.
 */
export function request (...demands: readonly Demand[]): StoreCall {
  const call: StoreCall = new StoreCall(
    'acquire',
    async (store, tested) => {
      const known = tested && call.acquired.get(tested)
      const asked = demands
        .filter((demand) => isAskedOf(store, demand))
        .filter((_, index) => known?.[index] !== null)
      if (asked.length === 0) return []
      const acquisitions = await store.acquire(asked)
      // So that a wrong one is an `AssertionError`.
      doesNotThrow(() => {
        assertAcquisitions(acquisitions, asked)
      })
      call.acquired.set(store, acquisitions)
      rememberPlaces(store, asked, acquisitions)
      return acquisitions.filter((acquisition) => acquisition !== null).map(fieldsOf)
    },
    demands
  )
  return call
}

function rememberPlaces (
  store: QuotaStore,
  demands: readonly Demand[],
  acquisitions: readonly (Acquisition | null)[]
): void {
  if (!haveRoom(acquisitions)) return
  const taken = acquisitions.filter((_, index) => demands[index]?.window === null)
  places.set(store, [...(places.get(store) ?? []), ...taken])
}

export function peek (demand: Demand): StoreCall {
  return new StoreCall(
    'peek',
    async (store) => {
      if (!isAskedOf(store, demand)) return null
      const peeked = await store.peek?.(demand)
      return peeked && fieldsOf(peeked)
    },
    [demand]
  )
}

/**
 * Settles one demand of a request.
 *
 * @param index Which of the demands.
 */
export function settle ({ acquired, demands }: StoreCall, used = 0, index = 0): StoreCall {
  return new StoreCall(
    'settle',
    async (store) => {
      const acquisition = acquired.get(store)?.[index]
      if (acquisition != null) await store.settle?.(acquisition, used)
    },
    demands
  )
}

/** Settles a copy of a request's acquisition, and returns the name of the error. */
export function settleCopy ({ acquired, demands }: StoreCall): StoreCall {
  return new StoreCall(
    'settle',
    async (store) => {
      const acquisition = required(acquired.get(store)?.[0], 'the acquisition of the store')
      return settleWrongly(store, { ...acquisition })
    },
    demands
  )
}

/** Settles what the other store has returned for a request, and returns the name of the error. */
export function settleForeign ({ acquired, demands }: StoreCall): StoreCall {
  return new StoreCall(
    'settle',
    async (store) => {
      const [foreign] = [...acquired].filter(([owner]) => owner !== store)
      return settleWrongly(store, required(foreign?.[1][0], 'the acquisition of another store'))
    },
    demands
  )
}

async function settleWrongly (store: QuotaStore, acquisition: Acquisition): Promise<unknown> {
  try {
    await store.settle?.(acquisition, 0)
    return 'no error'
  } catch (error) {
    return loggableError(error).name
  }
}

export const clearCounters = new StoreCall('clearCounters', (store) => store.clearCounters?.())

/**
 * Simultaneous calls. Only how many are admitted, and how many of them on overflow counters,
 * is the same for every store.
 */
export function simultaneous (...calls: readonly StoreCall[]): StoreCall {
  const settles = calls.some(({ name }) => name === 'settle')
  return new StoreCall(settles ? 'settle' : 'acquire', async (store) => {
    await Promise.all(calls.map((each) => each.run(store)))
    return calls.map(({ acquired }) => outcomeOf(acquired.get(store) ?? [])).sort()
  })
}

/** The overflow of each demand of an admitted request. */
function outcomeOf (acquisitions: readonly (Acquisition | null)[]): string {
  return haveRoom(acquisitions) ? acquisitions.map(({ overflow }) => overflow).join() : 'rejected'
}
