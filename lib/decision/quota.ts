import type { FastifyRequest } from 'fastify'
import type { CallerReader } from '../caller/request-caller.js'
import { effectiveLimit, limitKinds, type LimitName } from '../limit/limit.js'
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
}

/** A quota of a server: its settings, and the parts that its decisions use. */
export class Quota {
  readonly name: string
  readonly operations: readonly Operation[]
  readonly unit
  /** The length of the window, in milliseconds; null for requests in flight. */
  readonly window
  readonly isEnforced: boolean
  readonly unreportedTokens: QuotaSettings['unreportedTokens']
  readonly store: QuotaStore
  readonly callerOf: CallerReader
  readonly #preferences: Preferences
  readonly #preference: string
  readonly #configured: number

  /** @param store The store of the quota. */
  constructor (settings: QuotaSettings, preferences: Preferences, callerOf: CallerReader, store: QuotaStore) {
    const { unit, window } = limitKinds[settings.limitName]
    this.name = settings.name
    this.operations = settings.operations
    this.unit = unit
    this.window = window
    this.isEnforced = settings.isEnforced
    this.unreportedTokens = settings.unreportedTokens
    this.store = store
    this.callerOf = callerOf
    this.#preferences = preferences
    this.#preference = settings.preference
    this.#configured = settings.configured
  }

  /** Returns the effective limit for a request. A promise only if the preference reader returned one. */
  limitOf (request: FastifyRequest): number | Promise<number> {
    const configured = this.#preferences.read(this.#preference, request, this.#configured)
    return typeof configured === 'number' ? effectiveLimit(configured) : configured.then(effectiveLimit)
  }
}
