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
   * Adds places again that a failed call may not have freed, unless too many wait. They wait no
   * longer than they would have.
   */
  addAgain (places: readonly Waiting<NamedPlace>[]): void {
    for (const { item, until } of places) this.#addUnawaited(item, until)
  }

  /** Removes and returns the oldest ones. Those that have ended by themselves are free. */
  take (most: number): Waiting<NamedPlace>[] {
    const now = performance.now()
    const taken: Waiting<NamedPlace>[] = []
    let removed = 0
    for (const waiting of this.#waiting) {
      if (taken.length === most) break
      removed += 1
      if (waiting.until > now) taken.push(waiting)
      else waiting.resolve()
    }
    this.#waiting = this.#waiting.slice(removed)
    return taken
  }

  #addUnawaited (place: NamedPlace, until: number): void {
    if (this.#waiting.length >= mostWaiting) return
    const waiting = new Waiting<NamedPlace>(place, until)
    waiting.done.catch(() => {})
    this.#waiting.push(waiting)
  }
}
