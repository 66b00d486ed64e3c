import { Counter } from '../counter.js'

/** A caller's own counter, linked to its neighbours in the order of last requests. */
export class TrackedCounter extends Counter {
  readonly callerKey: string
  /** The next older counter in the order of last requests. */
  older: TrackedCounter = this
  /** The next newer counter in the order of last requests. */
  newer: TrackedCounter = this

  constructor (callerKey: string, now: number) {
    super(now)
    this.callerKey = callerKey
  }
}
