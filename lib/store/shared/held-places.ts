import { randomBytes } from 'node:crypto'
import { nameOf, type Caller, type Holding, type Lease } from './driver.js'

// Bounds how long a call keeps the server busy.
const mostRestatedInCall = 256

/** The places that this process holds for a caller. */
export interface HeldPlace extends Caller {
  held: number
}

/** What a call says of the places that this process holds. */
export interface PlacesOfCall {
  readonly lease: Lease
  readonly holdings: readonly Holding[]
}

/**
 * The places that this process holds on one server, and what must still be stated there. Keeps an
 * entry for a caller only while it holds a place or has just freed one.
 *
 * After a call whose outcome is unknown, or if the server has lost the lease, a new generation
 * begins: the process states what it holds, and nothing else. What the server knows of callers that
 * are not stated ends with the earlier generation. So a lost reply needs no entry for its callers.
 */
export class HeldPlaces {
  readonly #process = randomBytes(12).toString('base64url')
  readonly #places = new Map<string, HeldPlace>()
  // The callers whose number must be stated, because it has changed or in a new generation.
  readonly #unstated = new Map<string, Caller>()
  #number = 0
  // The number of the latest call that has succeeded.
  #succeededNumber = 0
  #generation = 1
  // Whether a call of this generation has succeeded.
  #isGenerationKnown = true
  #isRestating = false

  /** Whether the process holds any place. */
  get isHolding (): boolean {
    return this.#places.size > 0
  }

  /** Whether something must be stated that no request or renewal is needed for. */
  get mustState (): boolean {
    return this.#unstated.size > 0
  }

  /** How many places of the caller the process holds. */
  held (caller: Caller): number {
    return this.#places.get(nameOf(caller))?.held ?? 0
  }

  take (caller: Caller): HeldPlace {
    const name = nameOf(caller)
    let place = this.#places.get(name)
    if (place === undefined) {
      place = { counters: caller.counters, callerKey: caller.callerKey, held: 0 }
      this.#places.set(name, place)
    }
    place.held += 1
    return place
  }

  /**
   * Frees a place. Returns whether the server must be told, which it need not if all were dropped
   * since.
   */
  free (place: HeldPlace): boolean {
    const name = nameOf(place)
    if (this.#places.get(name) !== place) return false
    place.held -= 1
    if (place.held === 0) this.#places.delete(name)
    this.#unstated.set(name, place)
    return true
  }

  /** Forgets all places, because the server has none any more. */
  drop (): void {
    this.#places.clear()
    this.#unstated.clear()
  }

  /**
   * Returns what the next call says; null if it is not about places.
   *
   * @param callers Whose numbers it must state: the callers of its demands of places, and of places
   *   that were freed.
   * @param isRenewal Whether the lease must be renewed.
   */
  next (callers: readonly Caller[], isRenewal: boolean): PlacesOfCall | null {
    const stated = new Map<string, Caller>()
    for (const caller of callers) stated.set(nameOf(caller), caller)
    for (const [name, caller] of this.#unstated) {
      if (stated.size >= callers.length + mostRestatedInCall) break
      stated.set(name, caller)
    }
    if (stated.size === 0 && !isRenewal && this.#isGenerationKnown) return null
    const holdings: Holding[] = []
    for (const [name, { counters, callerKey }] of stated) {
      this.#unstated.delete(name)
      holdings.push({ counters, callerKey, held: this.#places.get(name)?.held ?? 0 })
    }
    this.#number += 1
    const isComplete = !this.#isRestating || this.#unstated.size === 0
    if (isComplete) this.#isRestating = false
    const lease = {
      process: this.#process,
      number: this.#number,
      generation: this.#generation,
      isComplete
    }
    return { lease, holdings }
  }

  /**
   * Notes that a call has succeeded.
   *
   * @param wasHolding Whether the process held a place when it was sent.
   * @param latestNumber The number of the call before that the server knew, or 0.
   */
  noteSuccess (wasHolding: boolean, latestNumber: number): void {
    // A process without places has no lease.
    const isExpected = latestNumber === this.#succeededNumber || (latestNumber === 0 && !wasHolding)
    const isLost = this.#isGenerationKnown && !isExpected
    this.#isGenerationKnown = true
    this.#succeededNumber = this.#number
    if (isLost) this.beginGeneration()
  }

  /** Begins a new generation, because what the server knows has become uncertain. */
  beginGeneration (): void {
    this.#generation = this.#number + 1
    this.#isGenerationKnown = false
    this.#isRestating = true
    this.#unstated.clear()
    for (const [name, place] of this.#places) this.#unstated.set(name, place)
  }
}
