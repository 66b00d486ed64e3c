import type { CallerCount, QuotaCount } from '../store.js'
import { Window } from './window.js'

/** The requests of one quota in flight, by caller. Callers without any are not kept. */
export class MemoryPlaces {
  readonly #byCaller = new Map<string, Window>()

  get size (): number {
    return this.#byCaller.size
  }

  /** Returns what the caller has in flight. It is not kept yet if there is nothing. */
  reach (callerKey: string): Window {
    return this.#byCaller.get(callerKey) ?? new Window(0, null, null)
  }

  /** Keeps the places of a caller from now on. */
  add (callerKey: string, places: Window): void {
    this.#byCaller.set(callerKey, places)
  }

  /** Forgets a caller without places. */
  drop (callerKey: string, places: Window): void {
    if (places.count === 0 && this.#byCaller.get(callerKey) === places) {
      this.#byCaller.delete(callerKey)
    }
  }

  peek (callerKey: string): QuotaCount {
    return { ...this.reach(callerKey).stateAt(0), overflow: false }
  }

  list (): CallerCount[] {
    return [...this.#byCaller].map(([callerKey, places]) => ({ callerKey, ...places.stateAt(0) }))
  }
}
