import type { TrackedCounter } from './tracked-counter.js'

// V8 copies a whole Map when it grows, shrinks or fills up with deleted entries, and one request waits for the copy. Limiting the
// size of each Map limits this pause; docs/benchmarks.md lists the longest ones.
const callersPerMap = 4096

// Even at the largest caller cap, 2^24, a Map then holds about 65,000 callers, which bounds the pause.
const mostMaps = 256

/** The tracked counters by caller, divided among several Maps by the first two digits of the caller's digest. */
export class CounterIndex {
  readonly #maps: Map<string, TrackedCounter>[]
  readonly #lastMap: number

  /** @param capacity The maximum number of callers. */
  constructor (capacity: number) {
    const count = Math.min(mostMaps, 2 ** Math.ceil(Math.log2(capacity / callersPerMap + 1)))
    this.#maps = Array.from({ length: count }, () => new Map())
    this.#lastMap = count - 1
  }

  get (callerKey: string): TrackedCounter | undefined {
    return this.#mapOf(callerKey)?.get(callerKey)
  }

  add (counter: TrackedCounter): void {
    this.#mapOf(counter.callerKey)?.set(counter.callerKey, counter)
  }

  delete (callerKey: string): void {
    this.#mapOf(callerKey)?.delete(callerKey)
  }

  clear (): void {
    for (const map of this.#maps) map.clear()
  }

  #mapOf (callerKey: string): Map<string, TrackedCounter> | undefined {
    return this.#maps[(digit(callerKey.charCodeAt(0)) << 4 | digit(callerKey.charCodeAt(1))) & this.#lastMap]
  }
}

/** Returns the value of a hexadecimal digit from its character code, and an arbitrary number for any other character. */
function digit (code: number): number {
  return (code & 0xf) + (code >> 6) * 9
}
