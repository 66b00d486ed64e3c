import type { FastifyRequest } from 'fastify'
import type { CallerReader } from '../caller/request-caller.js'
import { shown, UnknownQuotaError } from '../errors.js'
import type { Calendar } from '../limit/calendar.js'
import { effectiveLimit, type QuotaPeriod } from '../limit/limit.js'
import type { Preferences } from '../limit/preferences.js'
import { proceed } from '../promises.js'
import type { Demand, QuotaCount, QuotaStore } from '../store/store.js'
import type { Operation } from '../subject/operation.js'
import type { Cost } from './amount.js'

/** A quota of a server, as `fastify.quotas` lists it. */
export interface QuotaInfo {
  /** `default`, or a key of the option `quotas`. */
  readonly name: string
  /** What the quota counts: `requests`, `requests-in-flight`, `tokens`, or the host's own unit. */
  readonly unit: string
  /** What the window is: `minute`, `hour`, `day` or `month`; null for requests in flight. */
  readonly period: QuotaPeriod
  /** The length of the window, in milliseconds; null for requests in flight and in a time zone. */
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
   * The length of the window, or the longest in a time zone, in milliseconds; null for requests in
   * flight.
   */
  readonly longestWindow: number | null
  /** The days or months of its time zone; null if its windows open with the first request. */
  readonly calendar: Calendar | null
  readonly isEnforced: boolean
  /** What a request counts when it is admitted. */
  readonly cost: Cost
  /**
   * What a request counts in the end if nothing was reported; undefined for what it counted when it
   * was admitted.
   */
  readonly unreported: Cost | undefined
  /** Returns the caller whom it counts. */
  readonly callerOf: CallerReader
}

/** A quota of a server: its settings, and its limit for a request. */
export interface Quota extends QuotaSettings {
  /**
   * Returns the effective limit for a request. A promise only if the preference reader returned
   * one.
   */
  limitOf(request: FastifyRequest): number | Promise<number>
}

/** What a quota asks its store for. */
export function demandOn (
  { counters, longestWindow: window, calendar }: Quota,
  callerKey: string,
  limit: number,
  cost: number
): Demand {
  return {
    counters,
    callerKey,
    limit,
    cost,
    window,
    end: calendar === null ? null : calendar.endOf(Date.now())
  }
}

/** Returns the milliseconds until the window of a count ends. */
export function timeLeft ({ windowRemaining, end }: QuotaCount): number | null {
  return end === undefined ? windowRemaining : Math.max(1, end - Date.now())
}

/**
 * Removes a caller's own counter in every quota. The next request of the caller opens new windows.
 *
 * @param callerKey The caller's digest, as returned by `callerKey`.
 * @returns A promise that rejects if a store fails or has no `forget`, after all others have
 *   forgotten the caller.
 */
export type QuotaForgetter = (callerKey: string) => Promise<void>

/** The quotas of a server, in their order. */
export class QuotaList {
  readonly all: readonly Quota[]

  constructor (settings: readonly QuotaSettings[], preferences: Preferences) {
    this.all = settings.map((each) => {
      const read = preferences.of(each.preference, each.configured)
      return { ...each, limitOf: (request) => proceed(read(request), effectiveLimit) }
    })
  }

  /**
   * Returns the quota with a name. Throws an `UnknownQuotaError` that says what the name was given
   * to if there is none.
   */
  named (name: unknown, where: string): Quota {
    const quota = this.all.find((each) => each.name === name)
    if (quota === undefined) {
      throw new UnknownQuotaError(where, this.all.map(({ name }) => name).join(', '), shown(name))
    }
    return quota
  }

  /** The value of the decorator `fastify.quotas`. */
  describe (): readonly QuotaInfo[] {
    return Object.freeze(
      this.all.map(({ name, unit, window, store, counters }) =>
        Object.freeze({ name, unit, window, store, counters })
      )
    )
  }

  /** The function for the decorator `fastify.quotaForget`. */
  forget: QuotaForgetter = async (callerKey) => {
    if (typeof callerKey !== 'string') {
      throw new TypeError(`the caller key must be a string; it got ${shown(callerKey)}`)
    }
    const results = await Promise.allSettled(
      this.all.map(async ({ store, counters }) => {
        if (store.forget === undefined) {
          throw new TypeError('the quota store has no function forget')
        }
        await store.forget(callerKey, counters)
      })
    )
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }
}
