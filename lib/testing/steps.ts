import { doesNotThrow, ok } from 'node:assert/strict'
import { assertAcquisitions } from '../store/result-checks.js'
import { haveRoom, settled } from '../store/side-by-side.js'
import type { Acquisition, Demand, QuotaStore, Settled } from '../store/store.js'

/**
 * Calls a store. Returns what is the same for every correct store.
 *
 * @param tested The store under test, which was called before, if this is the memory store that it
 *   is compared with.
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
  const { admitted, granted, count, held, windowRemaining, end, overflow = false } = result
  return { admitted, granted, count, held, windowRemaining, end, overflow }
}

/** The receipts of the places that each store has given, whether they were settled or not. */
export const places = new WeakMap<QuotaStore, unknown[]>()

/** Whether the plugin asks this of the store: one without `settle` cannot end what is held. */
function isAskedOf (store: QuotaStore, { window, isEstimate }: Demand): boolean {
  return store.settle !== undefined || (window !== null && !isEstimate)
}

/**
 * A request. A store made of stores may leave some demands undecided (null) if another one is
 * rejected. The memory store is then not asked about them, either.
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
      assertUsable(store, asked, acquisitions)
      call.acquired.set(store, acquisitions.map((each) => each && copyOf(each)))
      rememberPlaces(store, asked, acquisitions)
      return acquisitions.filter((acquisition) => acquisition !== null).map(fieldsOf)
    },
    demands
  )
  return call
}

/** Throws an `AssertionError` if the plugin could not use what was acquired. */
function assertUsable (
  store: QuotaStore,
  demands: readonly Demand[],
  acquisitions: readonly (Acquisition | null)[]
): void {
  doesNotThrow(() => {
    assertAcquisitions(acquisitions, demands)
  })
  if (store.settle === undefined || !haveRoom(acquisitions)) return
  for (const { receipt } of acquisitions) {
    ok(receipt !== undefined, 'an admitted acquisition has no receipt to settle with')
    doesNotThrow(() => {
      structuredClone(receipt)
    }, 'the receipt of an acquisition cannot be copied')
  }
}

/** A copy, because a receipt is a value, and not the identity of an object. */
function copyOf (acquisition: Acquisition): Acquisition {
  return { ...acquisition, receipt: structuredClone(acquisition.receipt) }
}

function rememberPlaces (
  store: QuotaStore,
  demands: readonly Demand[],
  acquisitions: readonly (Acquisition | null)[]
): void {
  if (!haveRoom(acquisitions)) return
  const taken = acquisitions.filter((_, index) => demands[index]?.window === null)
  const receipts = taken.map(({ receipt }) => receipt)
  places.set(store, [...(places.get(store) ?? []), ...receipts])
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
 * Settles one demand of a request, as the plugin does when the request ends: gives back what was
 * granted and not used, and holds nothing more. Does nothing if the request was rejected.
 *
 * @param index Which of the demands.
 */
export function settle (call: StoreCall, used = 0, index = 0): StoreCall {
  return settlement(call, index, (granted, demand) => ({
    count: Math.max(0, granted - used),
    held: settled(demand, granted).held
  }))
}

/** Settles the only demand of a request by these amounts. */
export function lower (call: StoreCall, less: Settled, once?: string): StoreCall {
  return settlement(call, 0, () => less, once)
}

function settlement (
  { acquired, demands }: StoreCall,
  index: number,
  lessOf: (granted: number, demand: Demand) => Settled,
  once?: string
): StoreCall {
  return new StoreCall(
    'settle',
    async (store) => {
      const acquisition = acquired.get(store)?.[index] ?? null
      const demand = demands[index]
      if (demand === undefined || acquisition?.receipt === undefined) return undefined
      const { receipt, granted } = acquisition
      const less = lessOf(granted, demand)
      if (once === undefined) await store.settle?.(receipt, less)
      else return store.settle?.(receipt, less, once)
    },
    demands
  )
}

export const clearCounters = new StoreCall('clearCounters', (store) => store.clearCounters?.())

/**
 * Simultaneous calls. Only how many are admitted, and how many of them on overflow counters,
 * is the same for every store.
 */
export function simultaneous (...calls: readonly StoreCall[]): StoreCall {
  // By this name, the steps of a store without `settle` are left out.
  const settles = calls.some(({ name }) => name === 'settle')
  return new StoreCall(settles ? 'settle' : 'acquire', async (store) => {
    await Promise.all(calls.map((each) => each.run(store)))
    return calls.map(({ acquired }) => outcomeOf(acquired.get(store) ?? [])).sort()
  })
}

/** The overflow of each demand of an admitted request. */
function outcomeOf (acquisitions: readonly (Acquisition | null)[]): string {
  if (!haveRoom(acquisitions)) return 'rejected'
  return acquisitions.map(({ overflow = false }) => overflow).join()
}
