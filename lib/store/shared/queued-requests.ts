import { OverloadError, TimeLimitError } from '../../errors.js'
import type { Acquisitions, Demand, QuotaCount } from '../store.js'
import { rejectAll, type Ended } from './ended.js'

/**
 * The longest time in the queue, in milliseconds. The call has a limit of its own
 * (`longestCallTime`); with a shared one, a request under lasting overload would have no time left
 * for its call.
 */
export const longestQueueTime = 2_500

/** What was decided on a request. */
export interface DecidedRequest {
  readonly acquisitions: Acquisitions
  /** When the call was sent; null if the request was rejected from memory. */
  readonly sentAt: number | null
}

interface Queued {
  /** The age at which it was added. */
  readonly since: number
}

export interface QueuedRequest extends Queued {
  readonly demands: readonly Demand[]
  readonly ended: Ended<DecidedRequest>
}

export interface QueuedStanding extends Queued {
  readonly key: string
  readonly demand: Demand
  readonly ended: Ended<QuotaCount | null>[]
}

/** Of what was asked, that which goes into one call. */
export interface AskedInCall {
  readonly requests: QueuedRequest[]
  readonly standings: QueuedStanding[]
}

/** Requests and standings that wait for a call. */
export class QueuedRequests {
  #requests: QueuedRequest[] = []
  #standings = new Map<string, QueuedStanding>()

  get requestCount (): number {
    return this.#requests.length
  }

  get isEmpty (): boolean {
    return this.#requests.length === 0 && this.#standings.size === 0
  }

  add (demands: readonly Demand[], age: number, ended: Ended<DecidedRequest>): void {
    this.#requests.push({ demands, since: age, ended })
  }

  /** Those of the same counter and window are one. */
  addStanding (demand: Demand, age: number, ended: Ended<QuotaCount | null>): void {
    const { counters, callerKey, window, start, end } = demand
    const key = JSON.stringify([counters, callerKey, window, start, end])
    this.#insertStanding({ key, demand, since: age, ended: [ended] })
  }

  /**
   * Moves requests into the call, in their order, until it has as many demands. A request with more
   * demands than that is alone.
   *
   * @param canTake Whether the call can decide on the demands. Otherwise, the request waits.
   */
  moveRequests (
    call: AskedInCall,
    mostDemands: number,
    canTake: (demands: readonly Demand[]) => boolean
  ): void {
    const left: QueuedRequest[] = []
    let demands = 0
    let isFull = false
    for (const queued of this.#requests) {
      const size = queued.demands.length
      if (demands > 0 && demands + size > mostDemands) isFull = true
      if (isFull || !canTake(queued.demands)) {
        left.push(queued)
      } else {
        call.requests.push(queued)
        demands += size
      }
    }
    this.#requests = left
  }

  /** Moves the oldest standings into the call. */
  moveStandings (call: AskedInCall, most: number): void {
    for (const [key, queued] of this.#standings) {
      if (call.standings.length === most) return
      call.standings.push(queued)
      this.#standings.delete(key)
    }
  }

  /** Puts back what is older than all that waits. */
  putBack ({ requests, standings }: AskedInCall): void {
    this.#requests = [...requests, ...this.#requests]
    const newer = [...this.#standings.values()]
    this.#standings = new Map()
    for (const standing of [...standings, ...newer]) this.#insertStanding(standing)
  }

  /**
   * Rejects those of whom it is known that they have no room.
   *
   * @param recall Returns what is known to reject a request; otherwise null.
   */
  rejectKnown (recall: (demands: readonly Demand[]) => Acquisitions | null): void {
    const left: QueuedRequest[] = []
    for (const queued of this.#requests) {
      const acquisitions = recall(queued.demands)
      if (acquisitions === null) left.push(queued)
      else queued.ended.resolve({ acquisitions, sentAt: null })
    }
    this.#requests = left
  }

  /**
   * Rejects those who have waited for too long: with an `OverloadError` if the server has answered
   * while they waited, otherwise with the error.
   *
   * @param answeredAt The age at which the server has answered last.
   * @param error Null for a `TimeLimitError`.
   */
  expire (age: number, answeredAt: number, error: unknown): void {
    const isYoung = ({ since }: Queued): boolean => age - since < longestQueueTime
    const reasonFor = ({ since }: Queued): unknown => {
      if (answeredAt > since) return new OverloadError(longestQueueTime)
      return error ?? new TimeLimitError(longestQueueTime)
    }
    // All wait for as long, so the oldest are the first.
    const firstYoung = this.#requests.findIndex(isYoung)
    const requests = this.#requests.splice(0, firstYoung === -1 ? Infinity : firstYoung)
    for (const request of requests) request.ended.reject(reasonFor(request))
    for (const [key, standing] of this.#standings) {
      if (isYoung(standing)) break
      this.#standings.delete(key)
      rejectAll(standing.ended, reasonFor(standing))
    }
  }

  /** Rejects all. */
  rejectAll (error: unknown): void {
    const standings = [...this.#standings.values()]
    this.#standings = new Map()
    rejectAsked({ requests: this.#requests.splice(0), standings }, error)
  }

  /** Rejects the requests at the front of the queue. */
  rejectFirst (count: number, error: unknown): void {
    rejectAsked({ requests: this.#requests.splice(0, count), standings: [] }, error)
  }

  #insertStanding (standing: QueuedStanding): void {
    const older = this.#standings.get(standing.key)
    if (older === undefined) this.#standings.set(standing.key, standing)
    else older.ended.push(...standing.ended)
  }
}

export function rejectAsked ({ requests, standings }: AskedInCall, error: unknown): void {
  for (const { ended } of requests) ended.reject(error)
  for (const { ended } of standings) rejectAll(ended, error)
}
