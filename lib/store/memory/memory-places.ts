import { Tally } from '../counter.js'

/** The requests in flight of one quota, by caller. A caller without any is not kept. */
export type MemoryPlaces = Map<string, Tally>

/** The requests of one caller in flight. */
export class CallerPlaces extends Tally {
  readonly #callerKey: string
  readonly #places: MemoryPlaces

  constructor (callerKey: string, places: MemoryPlaces) {
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
