import { addTo, grantOf, hasRoom, takeFrom } from '../counter.js'
import type { Acquisition, Demand } from '../store.js'
import type { Window } from './window.js'

/** A part of what an acquisition counts, in the window that counted it. */
interface Part {
  readonly window: Window
  amount: number
  readonly earlier: Part | null
}

/** An acquisition that knows in which windows it was counted. */
export class MemoryAcquisition implements Acquisition {
  readonly admitted: boolean
  readonly windowRemaining: number | null
  readonly overflow: boolean
  granted = 0
  count: number
  held: number
  declare end?: number
  readonly #demand: Demand
  readonly #window: Window
  // What the acquisition counts. Null if it was not counted.
  #latestPart: Part | null = null
  #counted = 0
  #held = 0

  constructor (demand: Demand, window: Window, now: number, overflow: boolean) {
    this.admitted = hasRoom(window.count, demand)
    this.windowRemaining = window.remaining(now)
    this.overflow = overflow
    this.count = window.count
    this.held = window.held
    if (window.end !== null) this.end = window.end
    this.#demand = demand
    this.#window = window
  }

  get demand (): Demand {
    return this.#demand
  }

  /** The window that the demand has reached. */
  get window (): Window {
    return this.#window
  }

  get isCounted (): boolean {
    return this.#latestPart !== null
  }

  /** Counts what the demand is granted, if all demands of the request have room. */
  take (): void {
    const window = this.#window
    this.granted = grantOf(window.count, this.#demand)
    if (this.#demand.isEstimate) this.#held = this.granted
    addTo(window, this.granted, this.#held)
    this.count = window.count
    this.held = window.held
    this.#addPart(window, this.granted)
  }

  /**
   * Holds nothing any more, and takes back what was counted too much, from the latest part first,
   * each in its own window.
   *
   * @returns What was counted too little.
   */
  settle (used: number): number {
    takeFrom(this.#window, 0, this.#held)
    this.#held = 0
    for (let part = this.#latestPart; part !== null && this.#counted > used; part = part.earlier) {
      const excess = Math.min(this.#counted - used, part.amount)
      takeFrom(part.window, excess, 0)
      part.amount -= excess
      this.#counted -= excess
    }
    return Math.max(0, used - this.#counted)
  }

  /** Counts more than was granted, in the window that is open now, whatever the limit. */
  takeMore (window: Window, amount: number): void {
    addTo(window, amount, 0)
    this.#addPart(window, amount)
  }

  #addPart (window: Window, amount: number): void {
    this.#counted += amount
    if (this.#latestPart?.window === window) this.#latestPart.amount += amount
    else this.#latestPart = { window, amount, earlier: this.#latestPart }
  }
}
