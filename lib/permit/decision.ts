import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { UnidentifiedReason } from '../caller/caller-key.js'
import type { Operation } from '../subject/operation.js'
import type { QuotaInfo } from './quota.js'

/**
 * What failed, so that no decision could be made: the store, the host's authentication, the mark of
 * the route, or the cost.
 */
export type UnavailableReason = 'store' | 'authentication' | 'mark' | 'cost'

/** What every decision holds. It never contains an identity. */
interface Decision<Outcome, Reason, CallerKey, Count> extends Pick<QuotaInfo, 'unit' | 'window'> {
  /** The outcome, which distinguishes the decisions. */
  readonly outcome: Outcome
  /** Why the request has no caller, or what failed; null for any other outcome. */
  readonly reason: Reason
  /**
   * The name of the quota: `default`, or a key of the option `quotas`; null if the mark of the
   * route failed.
   */
  readonly quota: string | null
  /** The protected operation that the request reached. */
  readonly operation: Operation
  /** Whether the decision determined the response; false in shadow mode. */
  readonly enforced: boolean
  /** The effective limit; 0 if the quota is disabled. */
  readonly limit: number
  /**
   * The caller's digest; null if there is no caller, if it was not determined, or if it does not
   * matter.
   */
  readonly callerKey: CallerKey
  /**
   * What is counted in the caller's window or in flight, this request included if it was admitted;
   * null if nothing was counted.
   */
  readonly count: Count
  /** Milliseconds until the caller's window ends; null if there is no open window. */
  readonly windowRemaining: number | null
  /** Whether the shared overflow counter is used because the caller cap is reached. */
  readonly overflow: boolean
}

/**
 * The decision on a request of an identified caller: `rejected` if the caller had no room for the
 * cost of the request.
 */
export type CountedDecision = Decision<'admitted' | 'rejected', null, string, number>

/** The decision on a request without a caller. */
export type UnauthenticatedDecision = Decision<'unauthenticated', UnidentifiedReason, null, null>

/** The decision if the limit is 0. */
export type DisabledDecision = Decision<'disabled', null, null, null>

/** The decision if something failed. */
export type UnavailableDecision = Decision<'unavailable', UnavailableReason, string | null, null>

/**
 * The decision of a quota on a request, a union by `outcome`: `admitted`; `rejected` if there is no
 * room for the cost of the request; `unauthenticated` if there is no caller key; `disabled` if the
 * limit is 0; `unavailable` if something failed.
 */
export type QuotaDecision =
  CountedDecision | UnauthenticatedDecision | DisabledDecision | UnavailableDecision

/** A message on the decision channel. */
export interface QuotaDecisionMessage {
  /** The request. */
  readonly request: FastifyRequest
  /** The decision on the request. */
  readonly decision: QuotaDecision
}

/**
 * The `node:diagnostics_channel` channel on which every decision is published. Its messages are
 * `QuotaDecisionMessage`s. Without a subscriber, publishing has almost no cost.
 */
export const quotaDecisions = channel('fastify-llm-quota:decision')
