import type { NamedPlace, QuotaCaller } from './driver.js'

/** How long a place lasts unless its process renews it, in milliseconds. */
export const placeDuration = 30_000

interface HeldPlace {
  readonly place: NamedPlace
  /** When the latest call was sent that took or renewed the place. */
  readonly renewedAt: number
}

/** The places of one caller, by their names. */
type PlacesOfCaller = Map<string, HeldPlace>

/**
 * The places that this process holds, and since when each has been renewed: in all and of each
 * caller, the one that was renewed first is the first.
 */
export class HeldPlaces {
  readonly #places = new Set<HeldPlace>()
  // By counters, then by caller. One name of both would have to be made for each place.
  readonly #byCounters = new Map<string, Map<string, PlacesOfCaller>>()

  get isEmpty (): boolean {
    return this.#places.size === 0
  }

  /** How many places of the caller the process holds. */
  count (caller: QuotaCaller): number {
    return this.#placesOf(caller)?.size ?? 0
  }

  /** @param takenAt When the call was sent that took the place. */
  add (place: NamedPlace, takenAt: number): void {
    const held = { place, renewedAt: takenAt }
    this.#places.add(held)
    const ofCaller = this.#placesOf(place) ?? this.#addCaller(place)
    ofCaller.set(place.name, held)
  }

  /** Returns whether the process held the place. */
  delete (place: NamedPlace): boolean {
    const ofCaller = this.#placesOf(place)
    const held = ofCaller?.get(place.name)
    if (ofCaller === undefined || held === undefined) return false
    this.#places.delete(held)
    ofCaller.delete(place.name)
    if (ofCaller.size === 0) this.#byCounters.get(place.counters)?.delete(place.callerKey)
    return true
  }

  /** Forgets all of them, because the server has none any more. */
  clear (): void {
    this.#places.clear()
    this.#byCounters.clear()
  }

  /**
   * A call has renewed the places. Some can have been freed in the meantime.
   *
   * @param sentAt When the call was sent.
   */
  renew (places: Iterable<NamedPlace>, sentAt: number): void {
    for (const place of places) {
      if (this.delete(place)) this.add(place, sentAt)
    }
  }

  /** Whether a place was taken or last renewed at this time or before. */
  hasNotRenewedSince (time: number): boolean {
    return this.notRenewedSince(time, 1).length > 0
  }

  /** Returns the oldest places that were taken or last renewed at this time or before. */
  notRenewedSince (time: number, most: number): NamedPlace[] {
    return oldestOf(this.#places, time, most)
  }

  /** As `notRenewedSince`, of one caller. */
  notRenewedSinceOf (caller: QuotaCaller, time: number, most: number): NamedPlace[] {
    return oldestOf(this.#placesOf(caller)?.values() ?? [], time, most)
  }

  #placesOf ({ counters, callerKey }: QuotaCaller): PlacesOfCaller | undefined {
    return this.#byCounters.get(counters)?.get(callerKey)
  }

  #addCaller ({ counters, callerKey }: QuotaCaller): PlacesOfCaller {
    const callers = this.#byCounters.get(counters) ?? new Map<string, PlacesOfCaller>()
    this.#byCounters.set(counters, callers)
    const added: PlacesOfCaller = new Map()
    callers.set(callerKey, added)
    return added
  }
}

/** @param held The one that was renewed first is the first. */
function oldestOf (held: Iterable<HeldPlace>, time: number, most: number): NamedPlace[] {
  const places: NamedPlace[] = []
  for (const { place, renewedAt } of held) {
    if (renewedAt > time || places.length >= most) break
    places.push(place)
  }
  return places
}
