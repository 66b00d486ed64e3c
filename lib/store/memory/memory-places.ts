import { Tally } from '../counter.js'
import type { CallerCount } from '../store.js'

/** The requests of one caller in flight. Kept as long as there are any. */
class CallerPlaces extends Tally {
  readonly #callerKey: string
  readonly #places: Map<string, Tally>

  constructor (callerKey: string, places: Map<string, Tally>) {
    super()
    this.#callerKey = callerKey
    this.#places = places
  }

  override add (amount: number): void {
    super.add(amount)
    this.#places.set(this.#callerKey, this)
  }

  override giveBack (amount: number): void {
    super.giveBack(amount)
    if (this.count === 0 && this.#places.get(this.#callerKey) === this) this.#places.delete(this.#callerKey)
  }
}

/** The requests in flight of one quota. */
export class MemoryPlaces {
  readonly #places = new Map<string, Tally>()

  /** Returns the places of a caller, which are kept from the first one that is added. */
  of (callerKey: string): Tally {
    return this.#places.get(callerKey) ?? new CallerPlaces(callerKey, this.#places)
  }

  list (): CallerCount[] {
    return [...this.#places].map(([callerKey, { count }]) => ({ callerKey, count, windowRemaining: null }))
  }

  get size (): number {
    return this.#places.size
  }
}
