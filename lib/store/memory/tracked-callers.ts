import { Counter } from '../counter.js'

/** A caller's own counter, linked to its neighbours in the order of last requests. */
class TrackedCounter extends Counter {
  readonly callerKey: string
  /** The counter with the next earlier last request. */
  older: TrackedCounter = this
  /** The counter with the next later last request. */
  newer: TrackedCounter = this

  constructor (callerKey: string) {
    super()
    this.callerKey = callerKey
  }
}

/**
 * The counters of the tracked callers, indexed by caller and ordered by last request. The counters that a sweep removes are
 * always the oldest ones, so a sweep does not have to scan all counters.
 */
export class TrackedCallers {
  readonly #capacity: number
  readonly #byCaller = new Map<string, TrackedCounter>()
  // Sentinel between the oldest and the newest counter. Its `lastSeen` is Infinity, so a sweep stops at it.
  readonly #ends = new TrackedCounter('')

  /** @param capacity The maximum number of callers. */
  constructor (capacity: number) {
    this.#capacity = capacity
    this.#ends.lastSeen = Infinity
  }

  get size (): number {
    return this.#byCaller.size
  }

  get isFull (): boolean {
    return this.size >= this.#capacity
  }

  /** The least recently used counter. If there is none, a counter whose `lastSeen` is `Infinity`. */
  get oldest (): TrackedCounter {
    return this.#ends.newer
  }

  get (callerKey: string): TrackedCounter | undefined {
    return this.#byCaller.get(callerKey)
  }

  /** Returns all counters. */
  all (): Iterable<TrackedCounter> {
    return this.#byCaller.values()
  }

  /** Returns the caller's counter, which becomes the newest one. Creates it if there is none, unless there are as many as the capacity. */
  findOrAdd (callerKey: string): TrackedCounter | undefined {
    let counter = this.#byCaller.get(callerKey)
    if (counter === undefined) {
      if (this.isFull) return undefined
      counter = new TrackedCounter(callerKey)
      this.#byCaller.set(callerKey, counter)
    } else {
      unlink(counter)
    }
    this.#link(counter)
    return counter
  }

  remove (counter: TrackedCounter): void {
    this.#byCaller.delete(counter.callerKey)
    unlink(counter)
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
