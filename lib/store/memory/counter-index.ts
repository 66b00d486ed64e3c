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
    return this.#maps[shardOf(callerKey, this.#lastMap)]?.get(callerKey)
  }

  add (counter: TrackedCounter): void {
    this.#maps[shardOf(counter.callerKey, this.#lastMap)]?.set(counter.callerKey, counter)
  }

  delete (callerKey: string): void {
    this.#maps[shardOf(callerKey, this.#lastMap)]?.delete(callerKey)
  }

  clear (): void {
    for (const map of this.#maps) map.clear()
  }
}

/** Returns a number from 0 to `last`, a power of 2 minus 1 below 256, from the first digits of a digest. */
function shardOf (callerKey: string, last: number): number {
  const first = digit(callerKey.charCodeAt(0))
  return last < 16 ? first & last : (first << 4 | digit(callerKey.charCodeAt(1))) & last
}

/** Returns the value of a hexadecimal digit from its character code, and an arbitrary number for any other character. */
function digit (code: number): number {
  return (code & 0xf) + (code >> 6) * 9
}
