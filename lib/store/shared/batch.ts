import type { Call, NamedPlace, RequestOfCall, Settlement } from './driver.js'
import type { Duty } from './duties.js'
import type { QueuedRequest, QueuedStanding } from './queued-requests.js'

/** What was taken out of the queue for one call. */
export class Batch {
  readonly freed: Duty<NamedPlace>[] = []
  readonly renewed = new Set<NamedPlace>()
  readonly settlements: Duty<Settlement>[] = []
  readonly requests: QueuedRequest[] = []
  readonly standings: QueuedStanding[] = []

  get isEmpty (): boolean {
    const duties = this.freed.length + this.renewed.size + this.settlements.length
    return duties + this.requests.length + this.standings.length === 0
  }
}

/** The lists of a call; the sender adds time, window ids and constants. */
export type CallContent = Pick<
  Call, 'freed' | 'renewed' | 'settlements' | 'requests' | 'standings'
>

/** A call that was taken out of the queue, and when it was sent. */
export interface SentCall {
  readonly batch: Batch
  readonly content: CallContent
  /** As `Call.number`. */
  readonly number: number
  readonly sentAt: number
  /** How many requests, the first ones in the queue, wait for it, and are rejected if it fails. */
  readonly waiting: number
}

/** @param callName A name that no other call has, of no process. */
export function contentOf (batch: Batch, callName: string): CallContent {
  return {
    freed: batch.freed.map(({ item }) => item),
    renewed: [...batch.renewed],
    settlements: batch.settlements.map(({ item }) => item),
    requests: batch.requests.map(({ demands }, index) => ({
      demands,
      place: `${callName}:${index}`
    })),
    standings: batch.standings.map(({ demand }) => demand)
  }
}

/** The places that a request takes, if it is admitted. */
export function placesOf ({ demands, place }: RequestOfCall): NamedPlace[] {
  const places: NamedPlace[] = []
  for (const { counters, callerKey, window } of demands) {
    if (window === null) places.push({ counters, callerKey, name: place })
  }
  return places
}
