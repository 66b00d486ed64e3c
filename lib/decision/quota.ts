import type { FastifyRequest } from 'fastify'
import type { CallerReader } from '../caller/request-caller.js'
import { effectiveLimit, limitKinds, type LimitName, type QuotaUnit } from '../limit/limit.js'
import type { Preferences } from '../limit/preferences.js'
import type { QuotaStore } from '../store/store.js'
import type { Operation } from '../subject/operation.js'

/** What the host has defined about a quota. */
export interface QuotaSettings {
  readonly name: string
  /** The operations that it protects, beside the routes that are marked with its name. */
  readonly operations: readonly Operation[]
  readonly limitName: LimitName
  /** The runtime preference that holds its limit. */
  readonly preference: string
  /** The limit that applies if the preference is unset or unavailable, an integer. */
  readonly configured: number
  readonly isEnforced: boolean
  /** Model tokens to charge if none are reported. */
  readonly unreportedTokens: number | ((request: FastifyRequest) => number)
  /** Returns the caller whom it counts. */
  readonly callerOf: CallerReader
  /** The store that holds its counters. */
  readonly store: QuotaStore
}

/** A quota of a server: its settings, and the parts that its decisions use. */
export interface Quota extends QuotaSettings {
  readonly unit: QuotaUnit
  /** The length of the window, in milliseconds; null for requests in flight. */
  readonly window: number | null
  /** Returns the effective limit for a request. A promise only if the preference reader returned one. */
  limitOf (request: FastifyRequest): number | Promise<number>
}

/** Combines the settings of a quota with what its decisions use. */
export function createQuota (settings: QuotaSettings, preferences: Preferences): Quota {
  const { limitName, preference, configured } = settings
  const { unit, window } = limitKinds[limitName]
  return {
    ...settings,
    unit,
    window,
    limitOf (request) {
      const limit = preferences.read(preference, request, configured)
      return typeof limit === 'number' ? effectiveLimit(limit) : limit.then(effectiveLimit)
    }
  }
}
