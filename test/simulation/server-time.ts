// The time of a server, whose clock a test sets.

/** The time that a server counts with: where its clock is set back, it goes on from the latest. */
export class ServerTime {
  /** By how much the clock is ahead of the true time, in milliseconds. */
  ahead = 0
  readonly #trueTime: () => number
  #latest = 0
  #added = 0

  constructor (trueTime: () => number) {
    this.#trueTime = trueTime
  }

  /** What the clock shows. */
  get clock (): number {
    return this.#trueTime() + this.ahead
  }

  /** The time, without a call. */
  look (): number {
    return Math.max(this.#latest, this.clock + this.#added)
  }

  /** The time of a call. */
  tell (): number {
    const now = this.look()
    this.#added = now - this.clock
    this.#latest = now
    return now
  }
}
