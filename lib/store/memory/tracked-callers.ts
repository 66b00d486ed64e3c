import { CounterIndex } from './counter-index.js'
import { TrackedCounter } from './tracked-counter.js'

/**
 * The counters of the tracked callers, indexed by caller and ordered by last request. The counters that a sweep removes are
 * always the oldest ones, so a sweep does not have to scan all counters.
 */
export class TrackedCallers {
  readonly #index: CounterIndex
  // Sentinel between the oldest and the newest counter. Its `lastSeen` is Infinity, so a sweep stops at it.
  readonly #ends = new TrackedCounter('', Infinity)
  #size = 0

  /** @param capacity The maximum number of callers. */
  constructor (capacity: number) {
    this.#index = new CounterIndex(capacity)
  }

  get size (): number {
    return this.#size
  }

  /** The least recently used counter. If there is none, a counter whose `lastSeen` is `Infinity`. */
  get oldest (): TrackedCounter {
    return this.#ends.newer
  }

  /** The most recently used counter. */
  get newest (): TrackedCounter {
    return this.#ends.older
  }

  get (callerKey: string): TrackedCounter | undefined {
    return this.#index.get(callerKey)
  }

  add (callerKey: string, now: number): TrackedCounter {
    const counter = new TrackedCounter(callerKey, now)
    this.#index.add(counter)
    this.#size += 1
    this.#link(counter)
    return counter
  }

  /** Moves a counter to the newest end of the order, when a request reaches it. */
  moveToNewest (counter: TrackedCounter): void {
    unlink(counter)
    this.#link(counter)
  }

  remove (counter: TrackedCounter): void {
    this.#index.delete(counter)
    this.#size -= 1
    unlink(counter)
  }

  clear (): void {
    this.#index.clear()
    this.#size = 0
    this.#ends.older = this.#ends
    this.#ends.newer = this.#ends
  }

  #link (counter: TrackedCounter): void {
    const newest = this.#ends.older
    counter.older = newest
    counter.newer = this.#ends
    newest.newer = counter
    this.#ends.older = counter
  }
}

function unlink (counter: TrackedCounter): void {
  counter.older.newer = counter.newer
  counter.newer.older = counter.older
}
