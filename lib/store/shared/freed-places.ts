import { placeDuration, type NamedPlace } from './driver.js'
import { mostWaiting, Waiting } from './waiting.js'

/**
 * The places that the next calls free. A place that was not freed ends by itself, so none waits for
 * longer than a place lasts.
 */
export class FreedPlaces {
  // The oldest is the first.
  readonly #waiting = new Set<Waiting<NamedPlace>>()

  get size (): number {
    return this.#waiting.size
  }

  /** Resolves when the place is free on the server. */
  add (place: NamedPlace): Promise<void> {
    const waiting = new Waiting(place, performance.now() + placeDuration)
    this.#waiting.add(waiting)
    return waiting.done
  }

  /**
   * Adds places that a failed call may have taken, or may not have freed, as far as not too many
   * wait. Nobody waits for them.
   */
  addAgain (places: readonly NamedPlace[]): void {
    for (const place of places) {
      if (this.#waiting.size >= mostWaiting) return
      this.add(place).catch(() => {})
    }
  }

  /** Removes and returns the oldest ones, except those that have ended. */
  take (most: number): Waiting<NamedPlace>[] {
    const now = performance.now()
    const taken: Waiting<NamedPlace>[] = []
    for (const waiting of this.#waiting) {
      if (taken.length === most) break
      this.#waiting.delete(waiting)
      if (waiting.until > now) taken.push(waiting)
      else waiting.resolve()
    }
    return taken
  }
}
