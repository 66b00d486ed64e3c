import { nameOf, type Caller, type NamedPlace } from './driver.js'

/** The places that this process holds on one server, and which of them must be renewed. */
export class HeldPlaces {
  readonly #byCaller = new Map<string, Set<NamedPlace>>()
  readonly #due = new Set<NamedPlace>()

  get areNone (): boolean {
    return this.#byCaller.size === 0
  }

  /** Whether some must be renewed. */
  get areDue (): boolean {
    return this.#due.size > 0
  }

  /** How many places of the caller the process holds. */
  count (caller: Caller): number {
    return this.#byCaller.get(nameOf(caller))?.size ?? 0
  }

  add (place: NamedPlace): void {
    const caller = nameOf(place)
    const places = this.#byCaller.get(caller)
    if (places === undefined) this.#byCaller.set(caller, new Set([place]))
    else places.add(place)
  }

  delete (place: NamedPlace): void {
    this.#due.delete(place)
    const caller = nameOf(place)
    const places = this.#byCaller.get(caller)
    places?.delete(place)
    if (places?.size === 0) this.#byCaller.delete(caller)
  }

  /** Forgets all of them, because the server has none any more. */
  clear (): void {
    this.#byCaller.clear()
    this.#due.clear()
  }

  /** From now on, all must be renewed. */
  renewAll (): void {
    for (const places of this.#byCaller.values()) this.renew([...places])
  }

  /** From now on, the places must be renewed, unless they have been freed. */
  renew (places: readonly NamedPlace[]): void {
    for (const place of places) {
      if (this.#byCaller.get(nameOf(place))?.has(place) === true) this.#due.add(place)
    }
  }

  /** Returns the first ones that must be renewed, and considers them renewed. */
  takeDue (most: number): NamedPlace[] {
    const taken: NamedPlace[] = []
    for (const place of this.#due) {
      if (taken.length === most) break
      this.#due.delete(place)
      taken.push(place)
    }
    return taken
  }
}
