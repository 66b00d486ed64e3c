import { createHmac, randomBytes } from 'node:crypto'

interface Failures {
  count: number
  /** Monotonic milliseconds. */
  last: number
}

const free = 5
const seconds = 1000
const longest = 60 * seconds
const forgotten = 15 * 60 * seconds
const places = 4096

/**
 * Delays sign-ins after wrong passwords. The first five failures cause no delay; then it doubles from one second to a minute. Unknown
 * names are delayed in the same way, so the delay does not reveal whether an account exists. Memory is bounded: names share 4,096 places,
 * and a client cannot tell which names share a place.
 */
export class FailedAttempts {
  readonly #failures = new Map<number, Failures>()
  readonly #key = randomBytes(32)
  readonly #now: () => number

  constructor (now: () => number) {
    this.#now = now
  }

  /** Milliseconds until the next attempt for the name is allowed; 0 if it is allowed now. */
  wait (username: string): number {
    const failures = this.#failures.get(this.#place(username))
    if (failures === undefined || failures.count < free) return 0
    return Math.max(0, failures.last + Math.min(longest, 2 ** (failures.count - free) * seconds) - this.#now())
  }

  add (username: string): void {
    const place = this.#place(username)
    const failures = this.#failures.get(place)
    const now = this.#now()
    const count = failures === undefined || now - failures.last >= forgotten ? 0 : failures.count
    this.#failures.set(place, { count: count + 1, last: now })
  }

  forget (username: string): void {
    this.#failures.delete(this.#place(username))
  }

  #place (username: string): number {
    return createHmac('sha256', this.#key).update(username).digest().readUInt32BE() % places
  }
}
