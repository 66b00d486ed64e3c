import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { UnidentifiedReason } from '../caller/caller-key.js'
import type { QuotaUnit } from '../limit/limit.js'
import type { Operation } from '../subject/operation.js'

/** What every decision holds. It never contains an identity. */
interface DecisionBase {
  /** The name of the quota: `default`, or a key of the option `quotas`. */
  readonly quota: string
  /** What the quota counts. */
  readonly unit: QuotaUnit
  /** The length of the window, in milliseconds; null for requests in flight. */
  readonly window: number | null
  /** The protected operation that the request reached. */
  readonly operation: Operation
  /** Whether the decision determined the response; false in shadow mode. */
  readonly enforced: boolean
  /** The effective limit; 0 if the quota is disabled. */
  readonly limit: number
  /** Milliseconds until the caller's window ends; null if no window was used. */
  readonly windowRemaining: number | null
  /** Whether the shared overflow counter was used because the caller cap is reached. */
  readonly overflow: boolean
}

/** The caller is below the limit, or at it. */
export interface CountedDecision extends DecisionBase {
  /** `rejected` if the caller was at the limit. */
  readonly outcome: 'admitted' | 'rejected'
  /** There is a caller. */
  readonly reason: null
  /** The caller's digest. */
  readonly callerKey: string
  /** What is counted in the caller's window or in flight, this request included if it was admitted. */
  readonly count: number
}

/** There is no caller. */
export interface UnauthenticatedDecision extends DecisionBase {
  /** The request has no caller. */
  readonly outcome: 'unauthenticated'
  /** Why there is none. */
  readonly reason: UnidentifiedReason
  /** There is none. */
  readonly callerKey: null
  /** Nothing was counted. */
  readonly count: null
}

/** The limit is 0, or the store or the authentication failed. */
export interface UncountedDecision extends DecisionBase {
  /** `unavailable` if the store or the authentication failed. */
  readonly outcome: 'disabled' | 'unavailable'
  /** Always null. */
  readonly reason: null
  /** The caller's digest; null if none was determined. */
  readonly callerKey: string | null
  /** Nothing was counted. */
  readonly count: null
}

/**
 * The decision of a quota on a protected request, a union by `outcome`: `admitted`; `rejected` if the caller is at the limit;
 * `unauthenticated` if there is no caller key; `disabled` if the limit is 0; `unavailable` if the store failed.
 */
export type QuotaDecision = CountedDecision | UnauthenticatedDecision | UncountedDecision

/** A message on the decision channel. */
export interface QuotaDecisionMessage {
  /** The request. */
  readonly request: FastifyRequest
  /** The decision on the request. */
  readonly decision: QuotaDecision
}

/**
 * The `node:diagnostics_channel` channel on which every decision is published. Its messages are `QuotaDecisionMessage`s. Without a
 * subscriber, publishing has almost no cost.
 */
export const quotaDecisions = channel('fastify-llm-quota:decision')
