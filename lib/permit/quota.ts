import type { FastifyRequest } from 'fastify'
import type { CallerReader } from '../caller/caller-key.js'
import type { Calendar } from '../limit/calendar.js'
import { effectiveLimit, type QuotaPeriod } from '../limit/limit.js'
import type { Preferences } from '../limit/preferences.js'
import type { Demand, QuotaCount, QuotaStore } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import type { AmountOf } from './amount.js'

/** What the host has defined about a quota. */
export interface QuotaSettings {
  readonly name: string
  /** The operations that it protects, beside the routes that are marked with its name. */
  readonly operations: readonly Operation[]
  /** The runtime preference that holds its limit. */
  readonly preference: string
  /** The limit that applies if the preference is unset or unavailable, an integer. */
  readonly configured: number
  /** What it counts: `requests`, `requests-in-flight`, `tokens`, or the host's own unit. */
  readonly unit: string
  readonly period: QuotaPeriod
  /** The length of the window, in milliseconds; null for requests in flight and in a time zone. */
  readonly window: number | null
  /** The length of the window, or the longest in a time zone, in milliseconds; null for requests in flight. */
  readonly longestWindow: number | null
  /** The days or months of its time zone; null if its windows open with the first request. */
  readonly calendar: Calendar | null
  /** The name under which a store keeps its counters. */
  readonly counters: string
  readonly isEnforced: boolean
  /** What a request counts when it is admitted. */
  readonly cost: AmountOf
  /** What a request counts in the end if nothing was reported; undefined for what it counted when it was admitted. */
  readonly unreported: AmountOf | undefined
  /** Returns the caller whom it counts. */
  readonly callerOf: CallerReader
  /** The store that holds its counters. */
  readonly store: QuotaStore
}

/** A quota of a server: its settings, and its limit for a request. */
export interface Quota extends QuotaSettings {
  /** Returns the effective limit for a request. A promise only if the preference reader returned one. */
  limitOf (request: FastifyRequest): number | Promise<number>
}

/** Combines the settings of a quota with the host's preferences. */
export function createQuota (settings: QuotaSettings, preferences: Preferences): Quota {
  const read = preferences.of(settings.preference, settings.configured)
  return {
    ...settings,
    limitOf (request) {
      const limit = read(request)
      return typeof limit === 'number' ? effectiveLimit(limit) : limit.then(effectiveLimit)
    }
  }
}

/** What a quota asks its store for. */
export function demandOn ({ counters, longestWindow: window, calendar }: Quota, callerKey: string, limit: number, cost: number): Demand {
  return { counters, callerKey, limit, cost, window, end: calendar === null ? null : calendar.endOf(Date.now()) }
}

/** Returns the milliseconds until the window of a count ends. */
export function timeLeft ({ windowRemaining, end }: QuotaCount): number | null {
  return end === undefined ? windowRemaining : Math.max(1, end - Date.now())
}
