import { required } from '../../required.js'
import { hasRoom } from '../counter.js'
import type { Acquisition, Acquisitions, Demand } from '../store.js'
import type { CallQueue } from './call-queue.js'
import { rejectionOf, RememberedRejections } from './remembered-rejections.js'
import { overflowRow } from './stored-names.js'
import type { DecidedRequest } from './queued-requests.js'

/**
 * Rejects requests that are known to have no room: by what their counters held lately, or because
 * this process itself holds the places. What is given back makes it unknown again.
 */
export class KnownRejections {
  readonly #queue: CallQueue
  readonly #clock: () => number
  readonly #remembered = new RememberedRejections()

  constructor (queue: CallQueue, clock: () => number) {
    this.#queue = queue
    this.#clock = clock
  }

  /**
   * Returns the rejection of a request that is known to have no room, with null for its other
   * demands; null if the server must be asked.
   */
  recall (demands: readonly Demand[]): Acquisitions | null {
    const now = this.#clock()
    return rejectionOfSome(demands, (demand) =>
      this.#remembered.recall(demand, now) ?? this.#placeRejection(demand)
    )
  }

  /**
   * Like `recall`, but uses an outdated rejection while another request asks. Not for requests in
   * the queue: one of them may be the one that asks.
   */
  recallAsked (demands: readonly Demand[]): Acquisitions | null {
    const now = this.#clock()
    return rejectionOfSome(demands, (demand) => this.#remembered.recallAsked(demand, now))
  }

  /** A request asks the server. `answered` or `failed` follows. */
  asks (demands: readonly Demand[]): void {
    for (const demand of demands) this.#remembered.asks(demand)
  }

  answered (demands: readonly Demand[], { acquisitions, sentAt }: DecidedRequest): void {
    for (const [index, demand] of demands.entries()) {
      if (sentAt === null) {
        this.#remembered.asksNoLonger(demand)
      } else {
        const acquisition = required(acquisitions[index], 'an acquisition')
        // What was given back after the call was sent is not in its reply.
        const isUnknown = acquisition.admitted || this.#queue.hasGivenBackIn(demand)
        this.#remembered.answered(demand, isUnknown ? null : acquisition, sentAt)
      }
    }
  }

  /** The server has not answered. */
  failed (demands: readonly Demand[]): void {
    for (const demand of demands) this.#remembered.answered(demand, null, 0)
  }

  /** Removes what is out of date because something was given back in a row of the counters. */
  drop (counters: string, row: string): void {
    if (row === overflowRow) this.#remembered.dropOverflow(counters)
    else this.#remembered.drop(counters, row)
  }

  /** Returns a rejection if this process itself holds the caller's places up to the limit. */
  #placeRejection (demand: Demand): Acquisition | null {
    if (demand.window !== null) return null
    const count = this.#queue.held(demand)
    return hasRoom(count, demand) ? null : rejectionOf(count, count)
  }
}

/** Returns null if no demand is rejected. */
function rejectionOfSome (
  demands: readonly Demand[],
  rejectionFor: (demand: Demand) => Acquisition | null
): Acquisitions | null {
  let rejections: (Acquisition | null)[] | null = null
  for (const [index, demand] of demands.entries()) {
    const rejection = demand.isWaiting === true ? null : rejectionFor(demand)
    if (rejection === null) continue
    rejections ??= demands.map(() => null)
    rejections[index] = rejection
  }
  return rejections
}
