import { hasRoom } from '../counter.js'
import type { Acquisition, CallerCount, Demand, QuotaCount, QuotaStore } from '../store.js'

/** The concurrent requests of one quota, by caller. Callers without any are not kept. */
export class MemoryPlaces {
  readonly #byCaller = new Map<string, number>()

  get callers (): number {
    return this.#byCaller.size
  }

  countOf (callerKey: string): number {
    return this.#byCaller.get(callerKey) ?? 0
  }

  take (callerKey: string): void {
    this.#byCaller.set(callerKey, this.countOf(callerKey) + 1)
  }

  free (callerKey: string): void {
    const left = this.countOf(callerKey) - 1
    if (left > 0) this.#byCaller.set(callerKey, left)
    else this.#byCaller.delete(callerKey)
  }

  peek (callerKey: string): QuotaCount {
    return { ...stateOf(this.countOf(callerKey)), overflow: false }
  }

  list (): CallerCount[] {
    return [...this.#byCaller].map(([callerKey, count]) => ({ callerKey, ...stateOf(count) }))
  }
}

function stateOf (count: number): Omit<QuotaCount, 'overflow'> {
  return { count, held: count, windowRemaining: null }
}

/** The acquisition of a place. The place is free again once it is settled with 0. */
export class PlaceAcquisition implements Acquisition {
  readonly admitted: boolean
  readonly windowRemaining = null
  readonly overflow = false
  granted = 0
  count = 0
  held = 0
  readonly #store: QuotaStore
  readonly #places: MemoryPlaces
  readonly #callerKey: string
  #isTaken = false

  constructor (store: QuotaStore, demand: Demand, places: MemoryPlaces) {
    this.#store = store
    this.admitted = hasRoom(places.countOf(demand.callerKey), demand)
    this.#places = places
    this.#callerKey = demand.callerKey
  }

  /** Takes the place, if all demands of its request have room. */
  decide (isAdmitted: boolean): void {
    if (isAdmitted) {
      this.#places.take(this.#callerKey)
      this.#isTaken = true
      this.granted = 1
    }
    this.count = this.#places.countOf(this.#callerKey)
    this.held = this.count
  }

  /** Whether this store has returned it. */
  isOf (store: QuotaStore): boolean {
    return this.#store === store
  }

  settle (used: number): void {
    if (used > 0 || !this.#isTaken) return
    this.#isTaken = false
    this.#places.free(this.#callerKey)
  }
}
