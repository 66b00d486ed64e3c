import type { UnidentifiedReason } from '../caller/caller-key.js'
import type { Operation } from '../subject/operation.js'
import type { Quota, QuotaInfo } from './quota.js'

/**
 * What failed, so that no decision could be made: the store, the host's authentication, the mark of
 * the route, the limit, the cost, or the time zone; `closing` if the server closed while the
 * request waited.
 */
export type UnavailableReason =
  'store' | 'authentication' | 'mark' | 'limit' | 'cost' | 'time-zone' | 'closing'

/** What every decision holds. It never contains an identity. */
interface Decision<Outcome, Reason, CallerKey, Count, Name = string> extends Pick<
  QuotaInfo,
  'unit' | 'period' | 'window'
> {
  /** The outcome, which distinguishes the decisions. */
  readonly outcome: Outcome
  /** Why the request has no caller, or what failed; null for any other outcome. */
  readonly reason: Reason
  /** The id of the request, or what `quotaAcquire` was given; null if it was given none. */
  readonly reference: string | null
  /**
   * The name of the quota: `default`, or a key of the option `quotas`; null if the mark of the
   * route failed.
   */
  readonly quota: Name
  /**
   * The protected operation that the request reached. Its path is that of the operation or the
   * pattern of the route, with the prefix, never what a client sent: `*` if no route matched. Null
   * for a permit without a request.
   */
  readonly operation: Operation | null
  /** Whether the decision determined the response; false in shadow mode. */
  readonly enforced: boolean
  /**
   * The effective limit. 0 if the quota is disabled, if a function leaves the caller nothing, or if
   * no limit was determined; `Infinity` if a function returned that.
   */
  readonly limit: number
  /**
   * The caller's digest; null if there is no caller, if it was not determined, or if it does not
   * matter.
   */
  readonly callerKey: CallerKey
  /**
   * What is counted in the caller's window or at the same time, this request included if it was
   * admitted; null if no store decided.
   */
  readonly count: Count
  /** The part of the count that requests in progress hold; null if no store decided. */
  readonly held: Count
  /** What this request counts; 0 if it was rejected, null if no store decided. */
  readonly granted: Count
  /** Milliseconds until the caller's window ends; null if there is no open window. */
  readonly windowRemaining: number | null
  /**
   * Seconds, as in the `Retry-After` header of a refusal for this decision. Null if it is admitted,
   * disabled or unauthenticated, and if the request can never be admitted, because its cost is
   * above the limit or the limit leaves nothing.
   */
  readonly retryAfter: number | null
  /** Whether the shared overflow counter is used because the caller cap is reached. */
  readonly overflow: boolean
  /** How long the request waited for room, in milliseconds; 0 if it did not. */
  readonly waited: number
}

/**
 * The decision on a request of an identified caller: `rejected` if the caller had no room for the
 * cost of the request.
 */
export type CountedDecision =
  Decision<'admitted', null, string, number> | Decision<'rejected', null, string, number>

/** The decision on a request without a caller. */
export type UnauthenticatedDecision = Decision<'unauthenticated', UnidentifiedReason, null, null>

/** The decision if the limit is 0. */
export type DisabledDecision = Decision<'disabled', null, null, null>

/** The decision if something failed. */
export type UnavailableDecision = Decision<
  'unavailable',
  UnavailableReason,
  string | null,
  null,
  string | null
>

/**
 * The decision of a quota on a request, a union by `outcome`: `admitted`; `rejected` if there is no
 * room for the cost of the request; `unauthenticated` if there is no caller key; `disabled` if the
 * limit is 0; `unavailable` if something failed. docs/rules.md, "Decision", lists what it contains.
 */
export type QuotaDecision =
  CountedDecision | UnauthenticatedDecision | DisabledDecision | UnavailableDecision

/** What differs between the decisions that no store has made. */
export type OutcomeWithoutStore =
  | OutcomeOf<DisabledDecision>
  | OutcomeOf<UnauthenticatedDecision>
  | OutcomeOf<UnavailableDecision>

type OutcomeOf<Each extends QuotaDecision> = Pick<
  Each,
  'outcome' | 'reason' | 'callerKey' | 'retryAfter'
>

/** What a decision says of its quota, beside the name. */
type QuotaOfDecision = Pick<Quota, 'unit' | 'period' | 'window' | 'isEnforced'>

/** What a decision says of its request. */
interface RequestOfDecision {
  readonly operation: Operation | null
  readonly reference: string | null
}

/** Returns what every decision says that no store has made. */
export function withoutStore (
  { unit, period, window, isEnforced }: QuotaOfDecision,
  { operation, reference }: RequestOfDecision,
  limit: number
) {
  return {
    reference,
    unit,
    period,
    window,
    operation,
    enforced: isEnforced,
    limit,
    count: null,
    held: null,
    granted: null,
    windowRemaining: null,
    overflow: false,
    waited: 0
  } as const
}
