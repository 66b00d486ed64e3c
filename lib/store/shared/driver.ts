import type { Acquisition, CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'

/**
 * What a server does for a `SharedStore`, each in one round trip. A driver knows one server and its
 * layout, which has a version; it refuses any other version by name. `decide` is called once at a
 * time.
 */
export interface Driver {
  /**
   * The maximum number of demands in a call of several requests. So many keep the server busy for a
   * few milliseconds, in the worst order of requests.
   */
  readonly mostDemands: number
  /**
   * Does all of the call in one atomic step. Rejects with a `NotRunError` if certainly nothing of
   * it has run, and with anything else if that is unknown.
   */
  decide(call: Call): Promise<Reply>
  /** As `QuotaStore.peek`. */
  peek(demand: Demand, time: number | null): Promise<QuotaCount | null>
  /** As `QuotaStore.forget`: concurrent requests keep their places. */
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
  inspect(counters: string, time: number | null): Promise<QuotaStoreState>
  /** Removes everything, the places of all processes included. */
  clear(): Promise<unknown>
}

/**
 * Certainly nothing of a call has run, because it was not sent, or because the server has refused
 * it or rolled it back; or at most it has freed, renewed or taken places, which can be done again.
 * So its settlements wait for another call.
 */
export class NotRunError extends Error {
  /** What the client has thrown, with which the requests of the call fail. */
  override readonly cause: unknown

  constructor (cause: unknown) {
    super('nothing of the call has run')
    this.cause = cause
  }
}

/**
 * Certainly nothing of a call has run, and it can succeed in a moment. So all of it is sent again
 * until its time is over.
 */
export class TryAgainError extends NotRunError {}

/**
 * What a process asks of the server in one round trip. The server does it in this order: it frees
 * and renews places, settles, and decides on the requests.
 */
export interface Call {
  /** The time of the store's own clock in whole milliseconds; null for the server's clock. */
  readonly time: number | null
  /** Places that are free again. One that the server does not have changes nothing. */
  readonly freed: readonly NamedPlace[]
  /**
   * Places that last for `placeDuration` from now on. One that the server does not have, because it
   * has ended or was lost, is taken again.
   */
  readonly renewed: readonly NamedPlace[]
  /** Each window at most once, that of an overflow counter for all of its callers. */
  readonly settlements: readonly Settlement[]
  readonly requests: readonly RequestOfCall[]
}

/**
 * How long a place lasts unless its process renews it, in milliseconds. The servers' scripts have
 * the same time: `PLACE_DURATION` in layout.part.lua, and 30000 in schema.sql, twice.
 */
export const placeDuration = 30_000

/** A place of a caller. */
export interface NamedPlace extends Caller {
  /** `<process>:<call>:<request>`, so that no other place has this name. */
  readonly name: string
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
  /**
   * By how much less is held of what was admitted in each of these periods, at least 0. A period
   * that the counter no longer knows changes nothing.
   */
  readonly lessHeld: ReadonlyMap<number, number>
}

/** The demands of a request, on which the server decides in one step. At least one. */
export interface RequestOfCall {
  readonly demands: readonly Demand[]
  /** The name of each place that the request takes, if it is admitted. */
  readonly place: string
}

/** For each request what was decided on its demands, in their order. */
export type Reply = readonly (readonly Decided[])[]

/** What was decided on a demand. */
export interface Decided extends Acquisition {
  /**
   * The id of the counter's window, a safe integer of at least 0. No other window of the counter
   * has it, not even after the server has lost its data: on Redis it is a time that only
   * grows, and on PostgreSQL a random number. Any number for a place.
   */
  readonly windowId: number
  /** The period of ten minutes in which it was decided: `floor(now / 600,000)`. */
  readonly period: number
}

/** A caller of a quota. */
export type Caller = Pick<Demand, 'counters' | 'callerKey'>

/** Returns a name that no other caller and no other counters have. */
export function nameOf ({ counters, callerKey }: Caller): string {
  return `${counters.length} ${counters} ${callerKey}`
}
