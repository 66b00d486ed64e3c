import { Counter } from '../counter.js'

// V8 copies a whole Map when it grows, shrinks or fills up with deleted entries, and one request waits for the copy. Limiting the
// size of each Map limits this pause; docs/benchmarks.md lists the longest ones.
const callersPerMap = 4096

// Even at the largest caller cap, 2^24, a Map then holds about 65,000 callers, which bounds the pause.
const mostMaps = 256

// A power of 2, and at least `mostMaps`. The slots take 32 KiB.
const recentSlots = 4096

/** A caller's own counter, linked to its neighbours in the order of last requests. */
export class TrackedCounter extends Counter {
  readonly callerKey: string
  /** The counter with the next earlier last request. */
  older: TrackedCounter = this
  /** The counter with the next later last request. */
  newer: TrackedCounter = this

  constructor (callerKey: string, now: number) {
    super(now)
    this.callerKey = callerKey
  }
}

/** The tracked counters by caller, divided among several Maps by digits of the caller's digest. */
export class CounterIndex {
  readonly #maps: Map<string, TrackedCounter>[]
  readonly #lastMap: number
  // The counter that was found last for each value of the digest's first three digits. A request's digest is a new string, of which a Map
  // would have to hash all characters. That costs more than all other work on the counter.
  readonly #recent: (TrackedCounter | undefined)[] = Array.from({ length: recentSlots }, () => undefined)

  /** @param capacity The maximum number of callers. */
  constructor (capacity: number) {
    const count = Math.min(mostMaps, 2 ** Math.ceil(Math.log2(capacity / callersPerMap + 1)))
    this.#maps = Array.from({ length: count }, () => new Map())
    this.#lastMap = count - 1
  }

  get (callerKey: string): TrackedCounter | undefined {
    const slot = slotOf(callerKey)
    const recent = this.#recent[slot]
    return recent !== undefined && recent.callerKey === callerKey ? recent : this.#find(callerKey, slot)
  }

  add (counter: TrackedCounter): void {
    this.#mapOf(slotOf(counter.callerKey))?.set(counter.callerKey, counter)
  }

  delete (counter: TrackedCounter): void {
    const slot = slotOf(counter.callerKey)
    if (this.#recent[slot] === counter) this.#recent[slot] = undefined
    this.#mapOf(slot)?.delete(counter.callerKey)
  }

  clear (): void {
    this.#recent.fill(undefined)
    for (const map of this.#maps) map.clear()
  }

  #find (callerKey: string, slot: number): TrackedCounter | undefined {
    const counter = this.#mapOf(slot)?.get(callerKey)
    if (counter !== undefined) this.#recent[slot] = counter
    return counter
  }

  #mapOf (slot: number): Map<string, TrackedCounter> | undefined {
    return this.#maps[slot & this.#lastMap]
  }
}

/** Returns a number from 0 to 4095 from the first three digits of a digest. */
function slotOf (callerKey: string): number {
  const slot = digit(callerKey.charCodeAt(0)) << 8 | digit(callerKey.charCodeAt(1)) << 4 | digit(callerKey.charCodeAt(2))
  return slot & (recentSlots - 1)
}

/** Returns the value of a hexadecimal digit from its character code, and an arbitrary number for any other character. */
function digit (code: number): number {
  return (code & 0xf) + (code >> 6) * 9
}
