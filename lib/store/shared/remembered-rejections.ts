import { required } from '../../required.js'
import { hasRoom } from '../counter.js'
import type { Acquisition, Demand } from '../store.js'
import { counterName, storedName } from './stored-names.js'

// How long a rejection is remembered, in milliseconds. What another process changes (`forget`,
// `clearCounters`, a settlement) takes effect after this time at the latest.
const longestMemory = 1_000

// How long a rejection for want of a place is remembered, in milliseconds. Other processes free
// places at any time.
const longestMemoryOfPlaces = 100

// How many rejections are remembered. The oldest one is evicted. Those that are out of date stay
// until then, because they keep a flood from the server while one request asks again.
const mostRemembered = 10_000

interface Remembered {
  readonly counters: string
  readonly acquisition: Acquisition
  readonly askedAt: number
  /** Whether a request is asking the server, since the time to remember is over. */
  isAsked: boolean
}

/**
 * Remembers what the counters of rejected callers held, so that the server is not asked about each
 * request of a flood.
 */
export class RememberedRejections {
  // By the caller's counter. The oldest is the first.
  readonly #rejections = new Map<string, Remembered>()
  // The names of those by an overflow counter, by its counters.
  readonly #byOverflow = new Map<string, Set<string>>()

  /**
   * Returns a rejection if the demand has no room beside what its counter held lately; otherwise
   * null.
   */
  recall (demand: Demand, now: number): Acquisition | null {
    const known = this.#find(demand)
    if (known === undefined || now - known.askedAt >= memoryOf(demand)) return null
    return rejectionFrom(known, demand, now)
  }

  /**
   * As `recall`, of what is out of date while another request asks the server. So when the time to
   * remember is over, one request of a flood asks.
   */
  recallAsked (demand: Demand, now: number): Acquisition | null {
    const known = this.#find(demand)
    return known?.isAsked === true ? rejectionFrom(known, demand, now) : null
  }

  /** A request asks the server. `answered` or `asksNoLonger` follows. */
  asks (demand: Demand): void {
    const known = this.#find(demand)
    if (known !== undefined) known.isAsked = true
  }

  /** The request was rejected from memory before it was sent. */
  asksNoLonger (demand: Demand): void {
    const known = this.#find(demand)
    if (known !== undefined) known.isAsked = false
  }

  /**
   * Remembers what rejected the demand, or removes what was remembered of it.
   *
   * @param rejection What rejected it; null if the demand has room, or if that is not known.
   * @param askedAt The time before the server was asked, so that no window is remembered as longer
   *   than it is.
   */
  answered (demand: Demand, rejection: Acquisition | null, askedAt: number): void {
    if (rejection === null && this.#rejections.size === 0) return
    const name = nameOf(demand)
    this.#remove(name)
    if (rejection === null) return
    for (const oldest of this.#rejections.keys()) {
      if (this.#rejections.size < mostRemembered) break
      this.#remove(oldest)
    }
    const { counters } = demand
    this.#rejections.set(name, { counters, acquisition: rejection, askedAt, isAsked: false })
    if (rejection.overflow === true) this.#namesByOverflow(counters).add(name)
  }

  /** Removes what is out of date because something was given back in the counter. */
  drop (counters: string, row: string): void {
    // Most processes remember none, and need no name.
    if (this.#rejections.size > 0) this.#remove(counterName(counters, row))
  }

  /** As `drop`, of the overflow counter, which many callers can share. */
  dropOverflow (counters: string): void {
    for (const name of this.#namesByOverflow(counters)) this.#rejections.delete(name)
    this.#byOverflow.delete(counters)
  }

  #remove (name: string): void {
    const known = this.#rejections.get(name)
    if (known === undefined) return
    this.#rejections.delete(name)
    this.#namesByOverflow(known.counters).delete(name)
  }

  #namesByOverflow (counters: string): Set<string> {
    const names = this.#byOverflow.get(counters) ?? new Set<string>()
    this.#byOverflow.set(counters, names)
    return names
  }

  #find (demand: Demand): Remembered | undefined {
    // Most processes remember none, and need no name to look for.
    return this.#rejections.size === 0 ? undefined : this.#rejections.get(nameOf(demand))
  }
}

function nameOf ({ counters, callerKey }: Demand): string {
  return counterName(counters, storedName(callerKey))
}

function memoryOf ({ window }: Demand): number {
  return window === null ? longestMemoryOfPlaces : longestMemory
}

function rejectionFrom (known: Remembered, demand: Demand, now: number): Acquisition | null {
  const { count, held, windowRemaining, end, overflow = false } = known.acquisition
  if (hasRoom(count, demand)) return null
  const rejection = { ...rejectionOf(count, held), overflow }
  if (demand.window === null) return rejection
  if (end !== undefined) {
    const isOpen = demand.start !== null && demand.start < end
    return isOpen ? { ...rejection, end } : null
  }
  const length = required(windowRemaining, 'the remaining time of a window')
  const remaining = length - (now - known.askedAt)
  return remaining > 0 ? { ...rejection, windowRemaining: remaining } : null
}

/** A rejection for which the server was not asked. */
export function rejectionOf (count: number, held: number): Acquisition {
  return {
    admitted: false,
    granted: 0,
    count,
    held,
    windowRemaining: null,
    overflow: false,
    isRemembered: true
  }
}
