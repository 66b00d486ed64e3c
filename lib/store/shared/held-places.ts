import type { NamedPlace } from './driver.js'
import { counterName, storedName } from './stored-names.js'

/** How long a place lasts unless its process renews it, in milliseconds. */
export const placeDuration = 30_000

interface HeldPlace {
  readonly place: NamedPlace
  readonly counter: string
  /** When the latest call was sent that took or renewed the place. */
  readonly renewedAt: number
}

/** Returns the name of the counter that a place is one of. */
export function counterOfPlace ({ counters, callerKey }: NamedPlace): string {
  return counterName(counters, storedName(callerKey))
}

/** Returns a name that no other place has. */
export function keyOfPlace (place: NamedPlace): string {
  return `${counterOfPlace(place)} ${place.name}`
}

/** The places that this process holds, and since when each has been renewed. */
export class HeldPlaces {
  // By their keys, and by their counters. The one that was renewed first is the first.
  readonly #places = new Map<string, HeldPlace>()
  readonly #byCounter = new Map<string, Set<HeldPlace>>()

  get isEmpty (): boolean {
    return this.#places.size === 0
  }

  /** How many places of the counter the process holds. */
  count (counter: string): number {
    return this.#byCounter.get(counter)?.size ?? 0
  }

  /** @param takenAt When the call was sent that took the place. */
  add (place: NamedPlace, takenAt: number): void {
    const held = { place, counter: counterOfPlace(place), renewedAt: takenAt }
    this.#places.set(keyOfPlace(place), held)
    const ofCounter = this.#byCounter.get(held.counter)
    if (ofCounter === undefined) this.#byCounter.set(held.counter, new Set([held]))
    else ofCounter.add(held)
  }

  delete (place: NamedPlace): void {
    const key = keyOfPlace(place)
    const held = this.#places.get(key)
    if (held === undefined) return
    this.#places.delete(key)
    const ofCounter = this.#byCounter.get(held.counter)
    ofCounter?.delete(held)
    if (ofCounter?.size === 0) this.#byCounter.delete(held.counter)
  }

  /** Forgets all of them, because the server has none any more. */
  clear (): void {
    this.#places.clear()
    this.#byCounter.clear()
  }

  /**
   * A call has renewed the places. Some can have been freed in the meantime.
   *
   * @param sentAt When the call was sent.
   */
  renew (places: Iterable<NamedPlace>, sentAt: number): void {
    for (const place of places) {
      if (!this.#places.has(keyOfPlace(place))) continue
      this.delete(place)
      this.add(place, sentAt)
    }
  }

  /** Whether a place was taken or last renewed at this time or before. */
  hasNotRenewedSince (time: number): boolean {
    return this.notRenewedSince(time, 1).length > 0
  }

  /** Returns the oldest places that were taken or last renewed at this time or before. */
  notRenewedSince (time: number, most: number): NamedPlace[] {
    return oldestOf(this.#places.values(), time, most)
  }

  /** As `notRenewedSince`, of one counter. */
  notRenewedSinceOf (counter: string, time: number, most: number): NamedPlace[] {
    return oldestOf(this.#byCounter.get(counter) ?? [], time, most)
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
