/**
 * Keeps the counters of quotas (docs/rules.md, "Store"). Only `acquire` is required. Costs in a
 * unit other than requests, concurrent requests and quotas in two stores need `settle`;
 * `quotaStanding` needs `peek`. Each function can return a value or a promise. If `acquire` returns
 * a value, the request takes no extra turn of the event loop. If it throws or rejects, the response
 * is a 503, so no request is admitted without being counted.
 */
export interface QuotaStore {
  /**
   * Decides on all demands in one step: counts each if all of them have room, and none otherwise.
   * In both cases, each demand reaches its counter: it opens a window, sets `lastSeen` and runs a
   * sweep if one is due. No two demands have the same counters.
   *
   * @returns One acquisition for each demand, in their order; null for one that was not asked
   *   because another is known to have no room.
   */
  acquire(
    demands: readonly Demand[]
  ): readonly (Acquisition | null)[] | Promise<readonly (Acquisition | null)[]>
  /**
   * Takes `less.count` off what the acquisition with this receipt counted and `less.held` off what
   * it holds, in the window that counted it and in no other, never below 0. 1 and 1 frees a place.
   * What was used beyond is one more acquisition, which can be settled like any other.
   *
   * @param receipt The receipt of the acquisition.
   * @param once The text of a permit that was handed over: applied only the first time for this
   *   receipt and text, which is remembered until the window is over.
   * @returns With `once`, whether it was applied: false if the text was seen before for this
   *   receipt, or if the window is over. A store that returns nothing does not take `once`. A
   *   promise is fulfilled when the settlement has been applied.
   * @throws {TypeError} If the receipt is not one of this store, or if an amount is not an integer
   *   of at least 0.
   */
  settle?(
    receipt: unknown,
    less: Settled,
    once?: string
  ): void | boolean | Promise<void | boolean>
  /**
   * Returns the state of the counter that the demand would reach now, after a sweep if one is due.
   * Changes nothing: it neither updates `lastSeen` nor runs a sweep.
   *
   * @returns The count; null if the demand would open a new window, and never null for
   *   concurrent requests.
   */
  peek?(demand: Demand): QuotaCount | null | Promise<QuotaCount | null>
  /**
   * Removes the caller's own counter. The next request of the caller opens a new window. Does
   * nothing if the caller has no counter of its own: the overflow counter keeps its count, and
   * concurrent requests keep their places. Does not run a sweep.
   */
  forget?(counters: string, callerKey: string): void | Promise<void>
  /**
   * Returns a page of the callers that have a counter of their own with an open window, or places.
   * A caller whose window has not reached its end is on at least one page.
   *
   * @param cursor The cursor of the previous page. Default: the first page.
   */
  list?(counters: string, cursor?: string): CallerPage | Promise<CallerPage>
  /** Returns the number of tracked callers and, of a store that sweeps, the number of sweeps. */
  inspect?(counters: string): QuotaStoreState | Promise<QuotaStoreState>
  /**
   * Removes all counters of every quota, places and overflow counters included, and resets the
   * numbers of sweeps. Intended for tests.
   */
  clearCounters?(): void | Promise<void>
}

/** By how much a settlement lowers what an acquisition counted and holds. */
export interface Settled {
  /** By how much the count decreases, an integer of at least 0. */
  readonly count: number
  /** By how much less is held, an integer of at least 0. */
  readonly held: number
}

/**
 * What a quota asks of a store. There is room if `count + max(least, 1) <= limit`, and what is
 * granted and counted is then `min(most, limit - count)`.
 */
export interface Demand {
  /** The name of the counters: `default`, or for example `chat.tokens.day`. */
  readonly counters: string
  /** The caller's digest, as returned by `callerKey`. A store never receives an identity. */
  readonly callerKey: string
  /**
   * The effective limit, an integer of at least 0. `Number.MAX_SAFE_INTEGER` always has room, 0
   * never has.
   */
  readonly limit: number
  /**
   * The least that the request can use, an integer from 0 to `most`. Above the limit, there is
   * never room.
   */
  readonly least: number
  /** The most that the request can use, an integer of at least 0. */
  readonly most: number
  /** Whether what is counted is held until it is settled. A place is always held. */
  readonly isEstimate: boolean
  /**
   * How long a window can stay open, in milliseconds: its length, or the longest if windows differ,
   * and twice that if a function of the host says when they start. Null for concurrent requests.
   */
  readonly window: number | null
  /**
   * When the day, week or month of a time zone begins, in milliseconds since the epoch: a window
   * that ends then or earlier is over. A window that ends after it is still open, whatever the
   * time. Null if the window opens with the first request.
   */
  readonly start: number | null
  /** When that day, week or month ends, in milliseconds since the epoch; null if `start` is. */
  readonly end: number | null
  /**
   * What is counted, such as `tokens`. In a step, a range (`least < most`) is granted no more than
   * the other demands of its unit, and no less than its `least`.
   */
  readonly unit: string
  /** Whose demand it is; null if it is not for a journal (requests, places, shadow quotas). */
  readonly reference: string | null
  /**
   * Present if the request waits for room and is the first of its line: a store on a server then
   * asks its server, and rejects nothing from memory.
   */
  readonly isWaiting?: true
}

/** The state of a caller's counter. */
export interface QuotaCount {
  /** What is counted in the current window, or at the same time; at most 2^53 - 1. */
  readonly count: number
  /** The part of the count that requests in progress hold. Of concurrent requests, the count. */
  readonly held: number
  /**
   * Milliseconds until the current window ends, more than 0; null for days, weeks and months of a
   * time zone, and for concurrent requests.
   */
  readonly windowRemaining: number | null
  /**
   * When the current window ends, in milliseconds since the epoch. Present if the demand has an
   * end.
   */
  readonly end?: number
  /** Whether this is the shared overflow counter, which is used when the caller cap is reached. */
  readonly overflow?: boolean
}

/** The result of `acquire` for one demand. `count` and `held` include what was granted. */
export interface Acquisition extends QuotaCount {
  /** Whether the demand has room. The request is admitted if all of its demands have. */
  readonly admitted: boolean
  /** What was counted; 0 if the request was rejected. */
  readonly granted: number
  /**
   * What `settle` needs: which window has counted, or which place was taken. A value that can be
   * copied; a text in stores on servers, where any process may settle with it. Present if the store
   * has `settle` and the request was admitted, also if it was granted 0, because `once` needs it.
   */
  readonly receipt?: unknown
  /** Present if the demand was rejected from memory, so that the server was not asked. */
  readonly isRemembered?: true
}

/** What a store returns for the demands of a request. */
export type Acquisitions = readonly (Acquisition | null)[]

/** A caller with an open window, or with concurrent requests. */
export interface CallerCount extends Omit<QuotaCount, 'overflow'> {
  /** The caller's digest, as returned by `callerKey`. */
  readonly callerKey: string
}

/** A page of callers, as returned by `list`. */
export interface CallerPage {
  /** The callers of the page. */
  readonly callers: readonly CallerCount[]
  /** The cursor of the next page; null if this is the last page. */
  readonly cursor: string | null
}

/** The state of a store, as returned by `inspect`. */
export interface QuotaStoreState {
  /** The number of callers that have a counter of their own, or places. */
  readonly trackedCallers: number
  /** The number of sweeps since the store was created or last cleared; absent if it has none. */
  readonly sweeps?: number
}

/**
 * The default caller cap: how many callers can have a counter of their own (docs/rules.md, "Caller
 * cap and overflow counter").
 */
export const defaultMaxTrackedCallers = 10_000
