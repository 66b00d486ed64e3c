import type { OfRequest, OfRequestOrNone } from '../any-request.js'
import type { Caller, CallerReader } from '../caller/request-caller.js'
import type { CalendarWindow } from '../limit/calendar.js'
import type { LimitOfCaller, LimitReader } from '../limit/limit.js'
import type { QuotaPeriod } from '../limit/limit-kinds.js'
import type { QuotaStore } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import type { Cost, CostRange } from './cost.js'
import type { FromUsage } from './from-usage.js'
import type { Lines } from './waiting/lines.js'

/** A quota of a server, as `fastify.quotas` lists it. */
export interface QuotaInfo {
  /** `default`, or a key of the option `quotas`. */
  readonly name: string
  /** What the quota counts: `requests`, `concurrent-requests`, `tokens`, or the host's own unit. */
  readonly unit: string
  /**
   * What the window is: `minute`, `hour`, `day`, `week` or `month`; null for concurrent requests
   * and for a window of the host's own length.
   */
  readonly period: QuotaPeriod
  /**
   * The length of the window, in milliseconds; null for concurrent requests and in a time zone.
   */
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
  /**
   * The limit that applies if the preference is unset or unavailable: an integer, or what the
   * host's function returns for the caller.
   */
  readonly configured: number | LimitOfCaller<Caller>
  /**
   * How long a window can stay open, in milliseconds; null for concurrent requests. In a time zone,
   * that is the longest day, week or month, and twice as long where a function of the host says
   * when they start.
   */
  readonly longestWindow: number | null
  /**
   * Returns the day, week or month of a caller, now. Throws if the time zone of the caller, or on
   * which day its windows start, cannot be determined. Null if windows open with the first request.
   */
  readonly windowNow: ((caller: Caller) => CalendarWindow) | null
  readonly isEnforced: boolean
  /** What a request counts when it is admitted. */
  readonly cost: CostRange | OfRequest<Cost | PromiseLike<Cost>>
  /** What a request counts in the end if nothing was reported; undefined for what was granted. */
  readonly unreported: number | OfRequestOrNone<number> | undefined
  /** What a model's usage is in its unit; undefined for the tokens, if it counts these. */
  readonly fromUsage: FromUsage | undefined
  /** Whether its definition has an `authentication` of its own. */
  readonly hasOwnCaller: boolean
  /** Whether it has items in the headers `RateLimit-Policy` and `RateLimit`. */
  readonly hasRateLimitHeaders: boolean
  /** Reads the caller whom it counts. Quotas with the same function of the host share a reader. */
  readonly callers: CallerReader
  /** How long its requests wait for room, and how many; null if they do not. */
  readonly wait: WaitSettings | null
}

/** What the host has defined about requests that wait. */
export interface WaitSettings {
  /** How long a request waits, in milliseconds. */
  readonly timeout: number
  /** How many requests can wait at the same time. */
  readonly queue: number
}

/** A quota of a server: its settings, its limit for a request, and who waits. */
export interface Quota extends QuotaSettings {
  /** The requests that wait for it; null if none does. */
  readonly lines: Lines | null
  /** Whether the limit is a function of the caller, who is then determined first. */
  readonly isLimitOfCaller: boolean
  /** Returns the effective limit. */
  readonly limitOf: LimitReader<Caller>
}

/** Whether a report of a model's usage changes what a quota counts. */
export function takesUsage ({ unit, fromUsage }: Quota): boolean {
  return unit === 'tokens' || fromUsage !== undefined
}
