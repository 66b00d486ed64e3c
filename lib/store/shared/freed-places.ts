import { placeDuration, type NamedPlace } from './driver.js'
import { mostWaiting, Waiting } from './waiting.js'

/**
 * The places that the next calls free. A place that was not freed ends by itself, so none waits for
 * longer than a place lasts.
 */
export class FreedPlaces {
  #waiting: Waiting<NamedPlace>[] = []

  get size (): number {
    return this.#waiting.length
  }

  /** Resolves when the place is free on the server. */
  add (place: NamedPlace): Promise<void> {
    const waiting = new Waiting(place, performance.now() + placeDuration)
    this.#waiting.push(waiting)
    return waiting.done
  }

  /** Adds a place that a failed call may have taken, unless too many wait. */
  addTaken (place: NamedPlace): void {
    this.#addUnawaited(place, performance.now() + placeDuration)
  }

  /**
   * Adds places again that a failed call may not have freed, as far as not too many wait. They end
   * when they would have.
   */
  addAgain (places: readonly Waiting<NamedPlace>[]): void {
    for (const { item, until } of places) this.#addUnawaited(item, until)
  }

  /** Removes and returns the first ones, except those that have ended. */
  take (most: number): Waiting<NamedPlace>[] {
    const now = performance.now()
    const taken: Waiting<NamedPlace>[] = []
    let looked = 0
    for (const waiting of this.#waiting) {
      if (taken.length === most) break
      looked += 1
      if (waiting.until > now) taken.push(waiting)
      else waiting.resolve()
    }
    this.#waiting = this.#waiting.slice(looked)
    return taken
  }

  #addUnawaited (place: NamedPlace, until: number): void {
    if (this.#waiting.length >= mostWaiting) return
    const waiting = new Waiting<NamedPlace>(place, until)
    waiting.done.catch(() => {})
    this.#waiting.push(waiting)
  }
}
