import { Counter } from '../counter.js'

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
