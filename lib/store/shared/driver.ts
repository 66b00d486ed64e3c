import type { Acquisition, CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'

/**
 * What a server does for a `SharedStore`. A driver knows one server and its layout, and nothing of
 * what waits, of retries or of time limits. Its layout has a version, which stands in the names of
 * what it keeps, so that it never reads another one.
 */
export interface Driver {
  /**
   * The maximum number of demands in a call of several requests, and of each kind of its duties; a
   * quarter of it, of standings. So many keep the server busy for a few milliseconds, in the worst
   * order of requests.
   */
  readonly mostDemands: number
  /**
   * Whether the server writes down each change of a counter with its reference. Then settlements
   * have references, and none are joined.
   */
  readonly hasJournal: boolean
  /**
   * Whether a client can send a call twice. Then a call that was refused is sent again with its
   * number.
   */
  readonly canRepeat: boolean
  /**
   * Throws a `TypeError` if the server cannot store the names of a demand, so that it fails its own
   * request and not the call. Absent if the server can store any.
   */
  assertStorable?(demand: Demand): void
  /**
   * Gets what the next call is sent through. It has one call: `run` or `release` follows.
   *
   * A rejection means that nothing was sent, so that nothing is lost: the client is not ready, or
   * its pool has no free connection. With a `TryAgainError`, also the requests wait for the next
   * attempt; with any other error, they fail with it.
   */
  connect(): Connection | Promise<Connection>
  /** As `QuotaStore.forget`. */
  forget(counters: string, callerKey: string, time: number | null): Promise<unknown>
  /**
   * As `QuotaStore.list`.
   *
   * @param cursor Null for the first page.
   * @param time As that of a call.
   * @param date Milliseconds since the epoch, for windows with an end.
   */
  list(
    counters: string,
    cursor: string | null,
    time: number | null,
    date: number
  ): Promise<CallerPage>
  /** As `QuotaStore.inspect`, without sweeps. */
  inspect(counters: string, time: number | null): Promise<QuotaStoreState>
  /** Removes everything, the places of all processes included. */
  clear(time: number | null): Promise<unknown>
}

/** What one call is sent through. */
export interface Connection {
  /**
   * Does all of the call in one atomic step, in one round trip. The connection is released when
   * that has ended, however it ends.
   *
   * A rejection means that it is unknown whether the call has run, unless it is a `NotRunError`.
   */
  run(call: Call): Promise<Reply>
  /** Releases the connection without a call. */
  release(): void
}

/**
 * Certainly nothing of a call has run: it was not sent, or the server itself says that it has
 * refused it or rolled it back. So the duties of the call wait for another one. Its requests fail
 * with the cause.
 */
export class NotRunError extends Error {
  /** What the client has thrown. */
  override readonly cause: unknown

  constructor (cause: unknown) {
    super('nothing of the call has run')
    this.cause = cause
  }
}

/**
 * Certainly nothing of a call has run, and the next attempt can succeed in a moment. So its
 * requests wait, too, until their time is over.
 */
export class TryAgainError extends NotRunError {}

/**
 * What a process asks of the server in one round trip. The server does it in this order: it frees
 * and renews places, settles, decides on the requests in their order, and reads the standings.
 */
export interface Call {
  /** The name of the process that sends the call, which no other has. */
  readonly process: string
  /**
   * The number of the call, at least 1: higher than those of all calls that the process has sent
   * before, unless it repeats the settlements of one that was refused. If a client can send a call
   * twice, its driver settles nothing with a number that is not higher than the latest one with
   * settlements. So a call that is late can settle nothing, either.
   */
  readonly number: number
  /** The time of the store's own clock in whole milliseconds; null for the server's clock. */
  readonly time: number | null
  /** How long a place lasts unless its process renews it, in milliseconds. */
  readonly placeDuration: number
  /**
   * The length of a period in milliseconds: what was admitted in the present one,
   * `floor(now / periodLength)`, or in the one before, and was not settled since, is held.
   */
  readonly periodLength: number
  /**
   * The first of as many ids as the call has demands, for the windows that it opens: safe integers
   * above 0 that no other call has, of no process.
   */
  readonly firstWindowId: number
  /**
   * Places that are free again, each once. One that the server does not have changes nothing.
   */
  readonly freed: readonly NamedPlace[]
  /**
   * Places that last for `placeDuration` from now on. One that the server does not have, because it
   * has ended or was lost, is taken again.
   */
  readonly renewed: readonly NamedPlace[]
  readonly settlements: readonly Settlement[]
  readonly requests: readonly RequestOfCall[]
  /**
   * Demands of which only the counts are asked. Reading one changes no count. All have different
   * counters or callers, windows or starts.
   */
  readonly standings: readonly Demand[]
}

/** A place of a caller. */
export interface NamedPlace extends QuotaCaller {
  /** `<process>:<call>:<request>`: no other place of the same counters has this name. */
  readonly name: string
}

/**
 * What changes in a window, only if the row still has this window. Changes nothing else: no new
 * window, and nothing where the row is absent.
 */
export interface Settlement {
  readonly counters: string
  /** The row of the counters, as it is stored: that of `rowOf` in stored-names.ts. */
  readonly row: string
  readonly windowId: number
  /**
   * The greatest length of the window in milliseconds, thus how long `once` must be remembered at
   * most.
   */
  readonly window: number
  /** By how much the count decreases, at least 0. It never falls below 0. */
  readonly lessCount: number
  /**
   * By how much less is held of what was admitted in each of these periods, at least 0. A period
   * that the counter no longer knows changes nothing.
   */
  readonly lessHeld: ReadonlyMap<number, number>
  /**
   * Null, or a name (43 characters of base64url) that is remembered until the window is over. A
   * settlement whose name is remembered changes nothing.
   */
  readonly once: string | null
  /** The `reference` of the demand that was counted; null without a journal, or if it was null. */
  readonly reference: string | null
}

/**
 * The demands of a request, on which the server decides in one step: it counts each if all have
 * room, and none otherwise. At least one, each of other counters.
 *
 * The least of what the demands of one unit would be granted alone is the most that a range of that
 * unit (`least < most`) is granted, but no less than its `least`.
 */
export interface RequestOfCall {
  readonly demands: readonly Demand[]
  /** The name of each place that the request takes, if it is admitted. */
  readonly place: string
}

/** What the server has done. */
export interface Reply {
  /** The period in which the server has decided: `floor(now / periodLength)`. */
  readonly period: number
  /**
   * For each settlement, in their order: false if it has a name (`once`) and changed nothing, since
   * that is remembered or the row has another window; otherwise true.
   */
  readonly applied: readonly boolean[]
  /** For each request, in their order, what was decided on its demands, in theirs. */
  readonly decided: readonly (readonly Decided[])[]
  /** For each standing, in their order, what `QuotaStore.peek` returns. */
  readonly standings: readonly (QuotaCount | null)[]
}

/** What was decided on a demand. */
export interface Decided extends Omit<Acquisition, 'receipt' | 'isRemembered'> {
  /** Whether the row is that of the overflow counter. */
  readonly overflow: boolean
  /**
   * The id of the window that was found open or was opened, a safe integer of at least 0. No other
   * window of the row has it, not even after the server has lost its data. Any number for a place.
   */
  readonly windowId: number
}

/** A caller of a quota. */
export type QuotaCaller = Pick<Demand, 'counters' | 'callerKey'>
