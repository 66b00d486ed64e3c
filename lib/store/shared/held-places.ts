import { nameOf, type Caller, type NamedPlace } from './driver.js'

/** The places that this process holds on one server, and since when each has been renewed. */
export class HeldPlaces {
  // When the latest call was sent that took or renewed the place. The oldest is the first.
  readonly #renewedAt = new Map<NamedPlace, number>()
  readonly #counts = new Map<string, number>()

  get isEmpty (): boolean {
    return this.#renewedAt.size === 0
  }

  /** How many places of the caller the process holds. */
  count (caller: Caller): number {
    return this.#counts.get(nameOf(caller)) ?? 0
  }

  /** @param takenAt When the call was sent that took the place. */
  add (place: NamedPlace, takenAt: number): void {
    this.#renewedAt.set(place, takenAt)
    this.#counts.set(nameOf(place), this.count(place) + 1)
  }

  delete (place: NamedPlace): void {
    if (!this.#renewedAt.delete(place)) return
    const count = this.count(place) - 1
    if (count > 0) this.#counts.set(nameOf(place), count)
    else this.#counts.delete(nameOf(place))
  }

  /** Forgets all of them, because the server has none any more. */
  clear (): void {
    this.#renewedAt.clear()
    this.#counts.clear()
  }

  /**
   * A call has renewed the places. Some can have been freed in the meantime.
   *
   * @param sentAt When the call was sent.
   */
  renew (places: readonly NamedPlace[], sentAt: number): void {
    for (const place of places) {
      if (this.#renewedAt.delete(place)) this.#renewedAt.set(place, sentAt)
    }
  }

  /** Returns the oldest places that were taken, or last renewed, at this time or before. */
  renewedBy (time: number, most: number): NamedPlace[] {
    const places: NamedPlace[] = []
    for (const [place, renewedAt] of this.#renewedAt) {
      if (renewedAt > time || places.length === most) break
      places.push(place)
    }
    return places
  }
}
