import { CounterIndex, TrackedCounter } from './counter-index.js'

/**
 * The counters of the tracked callers, indexed by caller and ordered by last request. The counters that a sweep removes are
 * always the oldest ones, so a sweep does not have to scan all counters.
 */
export class TrackedCallers {
  readonly #capacity: number
  readonly #index: CounterIndex
  // Sentinel between the oldest and the newest counter. Its `lastSeen` is Infinity, so a sweep stops at it.
  readonly #ends = new TrackedCounter('', Infinity)
  #size = 0

  /** @param capacity The maximum number of callers. */
  constructor (capacity: number) {
    this.#capacity = capacity
    this.#index = new CounterIndex(capacity)
  }

  get size (): number {
    return this.#size
  }

  get isFull (): boolean {
    return this.#size >= this.#capacity
  }

  /** The least recently used counter. If there is none, a counter whose `lastSeen` is `Infinity`. */
  get oldest (): TrackedCounter {
    return this.#ends.newer
  }

  get (callerKey: string): TrackedCounter | undefined {
    return this.#index.get(callerKey)
  }

  /** Returns the caller's counter, which becomes the newest one. Creates it if there is none, unless there are as many as the capacity. */
  findOrAdd (callerKey: string, now: number): TrackedCounter | undefined {
    const counter = this.#index.get(callerKey)
    if (counter === undefined) return this.isFull ? undefined : this.#add(new TrackedCounter(callerKey, now))
    if (counter !== this.#ends.older) {
      unlink(counter)
      this.#link(counter)
    }
    return counter
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

  #add (counter: TrackedCounter): TrackedCounter {
    this.#index.add(counter)
    this.#size += 1
    this.#link(counter)
    return counter
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
