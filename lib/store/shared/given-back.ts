import { unlimited } from '../counter.js'
import type { NamedPlace, Settlement } from './driver.js'
import { Duties, type Duty, type DutyResult } from './duties.js'
import { placeDuration } from './held-places.js'
import { counterName } from './stored-names.js'
import { rejectAll, resolveAll, type Ended } from './ended.js'

/** How long a settlement of a short window waits at least, so that a call can be sent. */
const shortestWait = 5_000

/** How many settlements, and how many freed places, wait at most while the server fails. */
const mostWaiting = 10_000

/** Of what was given back, that which goes into one call. */
export interface GivenBackInCall {
  readonly freed: Duty<NamedPlace>[]
  readonly settlements: Duty<Settlement>[]
}

/** Settlements, and places to be freed, that wait for a call. */
export class GivenBack {
  readonly #freed = new Duties<NamedPlace>((older) => older)
  readonly #settlements = new Duties<Settlement>(joined)
  #unjoined = 0

  get isEmpty (): boolean {
    return this.#freed.size === 0 && this.#settlements.size === 0
  }

  get hasSettlements (): boolean {
    return this.#settlements.size > 0
  }

  /** Whether anything of the counter waits. */
  has (counter: string): boolean {
    return this.#freed.has(counter) || this.#settlements.has(counter)
  }

  /** Settlements of one window are one, unless each is remembered or written down by itself. */
  addSettlement (settlement: Settlement, age: number, ended: Ended<DutyResult>): void {
    const { counters, row, windowId, window, once, reference } = settlement
    const counter = counterName(counters, row)
    let key = `${windowId} ${counter}`
    if (once !== null || reference !== null) {
      this.#unjoined += 1
      key = `${key} ${this.#unjoined}`
    }
    const until = age + Math.max(window, shortestWait)
    this.#settlements.add({ item: settlement, key, counter, until, ended: [ended] })
  }

  /**
   * A place that is not freed ends by itself, so none waits for longer than a place lasts.
   *
   * @param row The caller, as it is stored.
   */
  addFreed (place: NamedPlace, row: string, age: number, ended: Ended<DutyResult>): void {
    const counter = counterName(place.counters, row)
    const key = `${counter} ${place.name}`
    const until = age + placeDuration
    this.#freed.add({ item: place, key, counter, until, ended: [ended] })
  }

  /** Adds what a call has certainly not done, and places, which can be freed twice. */
  addAgain ({ freed, settlements }: GivenBackInCall): void {
    this.#freed.addAgain(freed)
    this.#settlements.addAgain(settlements)
  }

  /** Moves the oldest of each kind into the call, until it has as many of them. */
  moveOldest (call: GivenBackInCall, most: GivenBackLimits): void {
    call.freed.push(...this.#freed.take(most.freed - call.freed.length))
    const settlements = most.settlements - call.settlements.length
    call.settlements.push(...this.#settlements.take(settlements))
  }

  /** As `moveOldest`, of one counter. */
  moveOf (counter: string, call: GivenBackInCall, most: GivenBackLimits): void {
    if (!this.has(counter)) return
    call.freed.push(...this.#freed.takeOf(counter, most.freed - call.freed.length))
    const settlements = most.settlements - call.settlements.length
    call.settlements.push(...this.#settlements.takeOf(counter, settlements))
  }

  /** Ends what has waited for too long. */
  expire (age: number): void {
    for (const { ended } of this.#freed.takeExpired(age)) resolveAll(ended, undefined)
    for (const { ended } of this.#settlements.takeExpired(age)) {
      rejectAll(ended, new Error('the settlement waited until its window was over'))
    }
  }

  /** Rejects the oldest of each kind if too many wait, because the server fails. */
  bound (): void {
    for (const duties of [this.#freed, this.#settlements]) {
      for (const { ended } of duties.take(duties.size - mostWaiting)) {
        rejectAll(
          ended,
          new Error(`more than ${mostWaiting} settlements or freed places wait for the server`)
        )
      }
    }
  }
}

/** How many of each kind a call has at most. */
export interface GivenBackLimits {
  readonly freed: number
  readonly settlements: number
}

/** Joins two settlements of the same window. No count is greater than `unlimited`. */
function joined (one: Settlement, other: Settlement): Settlement {
  const lessHeld = new Map(one.lessHeld)
  for (const [period, less] of other.lessHeld) {
    lessHeld.set(period, Math.min(less + (lessHeld.get(period) ?? 0), unlimited))
  }
  const lessCount = Math.min(one.lessCount + other.lessCount, unlimited)
  return { ...one, lessCount, lessHeld }
}
