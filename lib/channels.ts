import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { QuotaDecision } from './permit/decision.js'
import type { QuotaStore } from './store/store.js'

// All `node:diagnostics_channel` channels of the package, each with the message that is published
// on it. Without a subscriber, publishing has almost no cost.

/** What each message says of its server. */
interface OfServer {
  /** The server of Node.js that the message is of, which is `fastify.server`. */
  readonly server: object
}

/** A message on the channel `quotaDecisions`. */
export interface QuotaDecisionMessage extends OfServer {
  /** The request; null for a permit without one. */
  readonly request: FastifyRequest | null
  /** The decision on the request. */
  readonly decision: QuotaDecision
}

/**
 * The `node:diagnostics_channel` channel `fastify-llm-quota:decision`, on which every decision is
 * published. Its messages are `QuotaDecisionMessage`s.
 */
export const quotaDecisions = channel('fastify-llm-quota:decision')

/**
 * A message on the channel `quotaSettlements`: what a permit used of a quota in another unit than
 * requests. The sum of `used - before` over all messages is what the callers were counted.
 */
export interface QuotaSettlement extends OfServer {
  /** The request; null for a permit without one. */
  readonly request: FastifyRequest | null
  /** The id of the request, or what `quotaAcquire` was given; null if it was given none. */
  readonly reference: string | null
  /** The caller's digest. */
  readonly callerKey: string
  /** The name of the quota. */
  readonly quota: string
  /** The unit of the quota, such as `tokens`. */
  readonly unit: string
  /** What the admission was granted. */
  readonly granted: number
  /** What the request is counted from now on. */
  readonly used: number
  /** 0 in the first message of a permit and quota, and then `used` of the previous one. */
  readonly before: number
  /** Whether the host has reported what the request used. */
  readonly reported: boolean
  /**
   * When the window that counted the admission ends, in milliseconds since the epoch. Exact in a
   * time zone; otherwise, it can differ by some milliseconds between requests of one window.
   */
  readonly windowEnd: number
  /** Whether the store did not answer, so that the counter may differ. */
  readonly failed: boolean
}

/**
 * The `node:diagnostics_channel` channel `fastify-llm-quota:settlement`, on which a
 * `QuotaSettlement` is published for each permit and quota in another unit than requests when it is
 * settled, and again if a later report changes it.
 */
export const quotaSettlements = channel('fastify-llm-quota:settlement')

/** A message that a place was taken, or that it is free again. */
export interface QuotaPlaceChange extends OfServer {
  /** The name of the quota. */
  readonly quota: string
  /** 1 for a place that was taken, -1 for one that is free again. */
  readonly change: 1 | -1
}

/** The channel on which each `QuotaPlaceChange` is published. */
export const placeChanges = channel('fastify-llm-quota:place')

/** A message that a request waits for room, or does not wait any more. */
export interface QuotaWaitChange extends OfServer {
  /** The name of the quota in whose line it waits. */
  readonly quota: string
  /** The unit of the quota. */
  readonly unit: string
  /** 1 for a request that begins to wait, -1 for one that ends. */
  readonly change: 1 | -1
  /**
   * How long the request waited in all; null if it has just begun, and if it goes on waiting in
   * the line of another quota.
   */
  readonly seconds: number | null
}

/** The channel on which each `QuotaWaitChange` is published. */
export const waitChanges = channel('fastify-llm-quota:wait')

/** How long a decision waited for its stores, whether they decided or failed. */
export interface StoreDuration extends OfServer {
  readonly seconds: number
}

/** The channel on which each `StoreDuration` is published. Without a subscriber, none is timed. */
export const storeDurations = channel('fastify-llm-quota:store-duration')

/** A message that a preference was unavailable. */
export interface PreferenceFailure extends OfServer {
  /** The name of the preference. */
  readonly preference: string
}

/** The channel on which each `PreferenceFailure` is published. */
export const preferenceFailures = channel('fastify-llm-quota:preference-failure')

/** A message that an insured store switched between its primary and its fallback. */
export interface InsuredQuotaStoreChange {
  /** The insured store that changed. */
  readonly store: QuotaStore
  /** The store that decides from now on. */
  readonly state: 'primary' | 'fallback'
  /** The error of the primary; undefined if the primary works again. */
  readonly error: unknown
}

/** The channel on which each `InsuredQuotaStoreChange` is published once. */
export const insuredStoreChanges = channel('fastify-llm-quota:insured-store')

/** The decision of the earlier quota on one request. It never contains an address. */
export interface EarlierQuotaDecision {
  /** The outcome; `disabled` if the limit is 0 or negative. */
  readonly outcome: 'admitted' | 'rejected' | 'disabled'
  /** The method of the request, and the operation's path. */
  readonly operation: {
    /** The HTTP method. */
    readonly method: string
    /** The path of the operation, with the deployment context prefix. */
    readonly path: string
  }
  /** The limit: the preference, or else the configured limit. */
  readonly limit: number
}

/** A message on the channel `fastify-llm-quota:earlier-decision`. */
export interface EarlierQuotaDecisionMessage {
  /** The request. */
  readonly request: FastifyRequest
  /** The decision on the request. */
  readonly decision: EarlierQuotaDecision
}

/** The channel on which each `EarlierQuotaDecisionMessage` is published. */
export const earlierQuotaDecisions = channel('fastify-llm-quota:earlier-decision')
