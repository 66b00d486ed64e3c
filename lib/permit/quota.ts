import type { FastifyRequest } from 'fastify'
import type { OfRequest } from '../any-request.js'
import type { Caller, CallerReader } from '../caller/request-caller.js'
import type { QuotaPeriod } from '../limit/limit.js'
import type { QuotaStore } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import type { Cost, CostRange } from './cost.js'

/** A quota of a server, as `fastify.quotas` lists it. */
export interface QuotaInfo {
  /** `default`, or a key of the option `quotas`. */
  readonly name: string
  /** What the quota counts: `requests`, `concurrent-requests`, `tokens`, or the host's own unit. */
  readonly unit: string
  /** What the window is: `minute`, `hour`, `day` or `month`; null for concurrent requests. */
  readonly period: QuotaPeriod
  /** The length of the window, in milliseconds; null for concurrent requests and in a time zone. */
  readonly window: number | null
  /** The store that holds its counters. */
  readonly store: QuotaStore
  /** The name of its counters in the store. */
  readonly counters: string
}

/** What the host has defined about a quota. */
export interface QuotaSettings extends QuotaInfo {
  /** The operations that it protects, beside the routes that are marked with its name. */
  readonly operations: readonly Operation[]
  /** The runtime preference that holds its limit. */
  readonly preference: string
  /** The limit that applies if the preference is unset or unavailable, an integer. */
  readonly configured: number
  /**
   * The length of the window in milliseconds, or the longest in a time zone; null for requests in
   * flight.
   */
  readonly longestWindow: number | null
  /**
   * Returns when the day or month of a caller ends, in milliseconds since the epoch. Throws if the
   * time zone of the caller cannot be determined. Null if windows open with the first request.
   */
  readonly endOfWindow: ((caller: Caller) => number) | null
  readonly isEnforced: boolean
  /** What a request counts when it is admitted. */
  readonly cost: CostRange | OfRequest<Cost>
  /** What a request counts in the end if nothing was reported; undefined for what was granted. */
  readonly unreported: number | OfRequest<number> | undefined
  /** Reads the caller whom it counts. Quotas with the same function of the host share a reader. */
  readonly callers: CallerReader
}

/** A quota of a server: its settings, and its limit for a request. */
export interface Quota extends QuotaSettings {
  /**
   * Returns the effective limit for a request, or for an authentication without one. A promise only
   * if the preference reader returned one.
   */
  limitOf(request: FastifyRequest | undefined): number | Promise<number>
}
