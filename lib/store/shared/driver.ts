import type { Acquisition, CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'

/**
 * What a server does for a `SharedStore`, each in one round trip. A driver knows the server and its
 * layout, which has a version; it refuses any other version by name. `acquire` and `release` are
 * called once at a time, but both can be in flight, and run in any order there.
 */
export interface Driver {
  /**
   * Decides on requests, as `QuotaStore.acquire` does. Returns undefined for one that must be sent
   * again: nothing of it was counted.
   */
  acquire(
    requests: readonly StoredRequest[],
    call: Call
  ): Promise<readonly (readonly Decided[] | undefined)[]>
  /** Gives back what was counted in windows, and writes how many places this process holds. */
  release(releases: readonly Release[], holdings: readonly Holding[], call: Call): Promise<unknown>
  peek(demand: Demand, time: number | null): Promise<QuotaCount | null>
  /** Requests in flight keep their places. */
  forget(callerKey: string, counters: string): Promise<unknown>
  /** @param date Milliseconds since the epoch, for windows with an end. */
  list(
    counters: string,
    cursor: string | null,
    time: number | null,
    date: number
  ): Promise<CallerPage>
  inspect(counters: string): Promise<QuotaStoreState>
  clear(): Promise<unknown>
}

/** What a call says about this process. */
export interface Call {
  /** The time of the store's own clock in whole milliseconds; null for the server's clock. */
  readonly time: number | null
  /** The name of this process, which holds the places: 16 characters of the base64url alphabet. */
  readonly holder: string
  /**
   * Increases with each call. Of two calls that write a number of places, the one with the greater
   * number wins. A late one gets none.
   */
  readonly sequence: number
}

/** A request that is decided on in one step. */
export interface StoredRequest {
  readonly demands: readonly Demand[]
  /**
   * For each demand, how many places this process holds, without those that this call takes; 0 for
   * windows. Replaces the server's.
   */
  readonly held: readonly number[]
  /**
   * Identifies the window that the first demand opens, if it does; the next demand's is greater by
   * 1. An integer below 2^51, used once.
   */
  readonly nonce: number
  /**
   * How often this request was sent before. A call has no requests that were sent before beside
   * others.
   */
  readonly asked: number
}

/** What was decided on a demand. */
export interface Decided extends Acquisition {
  /** The nonce of the window; any integer for requests in flight. */
  readonly nonce: number
}

export type Caller = Pick<Demand, 'counters' | 'callerKey'>

/** Returns the name of a caller's counter. */
export function nameOf ({ counters, callerKey }: Caller): string {
  return `${counters} ${callerKey}`
}

/**
 * What is given back, only if the caller's own counter, or the overflow counter, still has the
 * window with the nonce.
 */
export interface Release extends Caller {
  readonly overflow: boolean
  readonly nonce: number
  /** An integer of at least 1. The count never falls below 0. */
  readonly amount: number
}

/** How many places of a caller this process holds, for 30 s from when they were last written. */
export interface Holding extends Caller {
  readonly held: number
}
