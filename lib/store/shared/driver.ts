import type { Acquisition, CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'

/**
 * What a server does for a `SharedStore`, each in one round trip. A driver knows one server and its
 * layout, which has a version; it refuses any other version by name. `decide` is called once at a
 * time.
 */
export interface Driver {
  /**
   * How many demands the requests of a call have at most, unless it has one request only. As many
   * keep the server busy for a few milliseconds, if each has other settings.
   */
  readonly mostDemands: number
  /**
   * Does all of the call in one atomic step: first what this process holds, then the settlements,
   * then the requests, in their order.
   */
  decide(call: Call): Promise<Reply>
  /** As `QuotaStore.peek`. */
  peek(demand: Demand, time: number | null): Promise<QuotaCount | null>
  /** As `QuotaStore.forget`: requests in flight keep their places. */
  forget(callerKey: string, counters: string): Promise<unknown>
  /**
   * As `QuotaStore.list`.
   *
   * @param date Milliseconds since the epoch, for windows with an end.
   */
  list(
    counters: string,
    cursor: string | null,
    time: number | null,
    date: number
  ): Promise<CallerPage>
  /** As `QuotaStore.inspect`. */
  inspect(counters: string): Promise<QuotaStoreState>
  /** Removes everything, the places and leases of all processes included. */
  clear(): Promise<unknown>
}

/** What a process asks of the server in one round trip. */
export interface Call {
  /** The time of the store's own clock in whole milliseconds; null for the server's clock. */
  readonly time: number | null
  /**
   * The lease of this process, which this call renews; null if the call has neither holdings nor
   * demands of places, nor is a renewal.
   */
  readonly lease: Lease | null
  /**
   * Each caller of a demand of a place in this call, and each caller for whom the number of places
   * has changed. No caller of the same counters twice.
   */
  readonly holdings: readonly Holding[]
  /** Can have the same caller several times. */
  readonly settlements: readonly Settlement[]
  readonly requests: readonly StoredRequest[]
}

/**
 * The lease of a process, without which its places do not count. The server keeps it while the
 * process holds a place, for 30 s from the latest call that had it. A process without places has
 * none.
 */
export interface Lease {
  /** The name of this process: 16 characters of the base64url alphabet. */
  readonly process: string
  /**
   * Increases with each call of the process. A call whose number is not greater than the latest one
   * that the server knows of this process is late: it changes nothing at all and fails.
   */
  readonly number: number
  /**
   * The number of a call: from that one on, this process has stated anew what it holds, because
   * what the server knew had become uncertain. Never decreases.
   */
  readonly generation: number
  /**
   * Whether, with this call, the process has stated in this generation all that it holds. Then what
   * the server knows from earlier generations is held no longer. The server takes it from the
   * totals as it does for a process whose lease has ended: a bounded part with each call. Until it
   * has finished, a request that has no room for a place must be sent again.
   */
  readonly isComplete: boolean
}

/**
 * How many places of a caller this process holds, without those that the call itself takes. A
 * number and no difference: it replaces what the server knew of this process and caller, of
 * whatever generation, and the total of the caller changes by the difference.
 */
export interface Holding extends Caller {
  /** At least 0. A caller for whom no process holds a place leaves nothing on the server. */
  readonly held: number
}

/**
 * What changes in a window, only if the caller's own counter, or the overflow counter, still has
 * this window. Changes nothing else: no `lastSeen`, no new window, no sweep.
 */
export interface Settlement extends Caller {
  /** Whether the overflow counter of these counters was used. */
  readonly overflow: boolean
  readonly windowId: number
  /** By how much the count decreases, at least 0. It never falls below 0. */
  readonly lessCount: number
  /** By how much what is held decreases, at least 0. It never falls below 0. */
  readonly lessHeld: number
}

/** The demands of a request, on which the server decides in one step. At least one. */
export type StoredRequest = readonly Demand[]

/** What the server has done. */
export interface Reply {
  /**
   * For each request what was decided on its demands, in their order; undefined for one that must
   * be sent again: nothing of it was counted, and it has changed nothing.
   */
  readonly decided: readonly (readonly Decided[] | undefined)[]
  /**
   * Whether the server had a lease of this process that had not ended before this call. If not, the
   * server may have lost or freed the places that the process held before. False without a lease.
   */
  readonly isLeaseKnown: boolean
}

/** What was decided on a demand. */
export interface Decided extends Acquisition {
  /**
   * The id of the counter's window, a safe integer of at least 0. No other window of the counter
   * ever has it, not even after the server has lost its data. Any number for a place.
   */
  readonly windowId: number
}

/** A caller of a quota. */
export type Caller = Pick<Demand, 'counters' | 'callerKey'>

/** Returns a name that no other caller and no other counters have. */
export function nameOf ({ counters, callerKey }: Caller): string {
  return `${counters.length} ${counters} ${callerKey}`
}
