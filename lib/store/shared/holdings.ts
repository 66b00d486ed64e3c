import type { Demand } from '../store.js'
import type { Holding } from './driver.js'

// A lease lasts three times as long, so two renewals can fail.
const renewalInterval = 10_000

/** How many places this process holds for a caller. */
export interface HeldPlaces extends Holding { held: number }

type Caller = Pick<Demand, 'counters' | 'callerKey'>

/** The places that this process holds in one shard. They are the truth: a call states their number and no difference, so the next one corrects it. */
export class Holdings {
  readonly #renew: (places: HeldPlaces) => void
  // Callers for whom the server may have a number other than 0.
  readonly #holdings = new Map<string, HeldPlaces>()
  #renewal: NodeJS.Timeout | undefined

  /** @param renew Writes the number of places, so that their lease begins again. */
  constructor (renew: (places: HeldPlaces) => void) {
    this.#renew = renew
  }

  /** Returns the places of a caller, which are renewed until they are dropped. */
  of ({ counters, callerKey }: Caller): HeldPlaces {
    const name = nameOf({ counters, callerKey })
    const places = this.#holdings.get(name) ?? { counters, callerKey, held: 0 }
    this.#holdings.set(name, places)
    this.#renewal ??= setInterval(() => { this.#holdings.forEach(this.#renew) }, renewalInterval).unref()
    return places
  }

  /** How many places of the caller this process holds. */
  count (caller: Caller): number {
    return this.#holdings.get(nameOf(caller))?.held ?? 0
  }

  /** Whether these places are still held: `clear` drops all. */
  has (places: HeldPlaces): boolean {
    return this.#holdings.get(nameOf(places)) === places
  }

  /** Drops the places if there are none and the server was told so. If it was told another number, a change of it is still to be sent. */
  dropUnused (places: HeldPlaces, told: number): void {
    if (places.held === 0 && told === 0 && this.has(places)) this.#holdings.delete(nameOf(places))
    if (this.#holdings.size === 0) this.clear()
  }

  clear (): void {
    this.#holdings.clear()
    clearInterval(this.#renewal)
    this.#renewal = undefined
  }
}

/** The name of a caller's counter. */
export function nameOf ({ counters, callerKey }: Caller): string {
  return `${counters} ${callerKey}`
}
