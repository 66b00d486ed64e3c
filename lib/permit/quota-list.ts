import { shown, UnknownQuotaError } from '../errors.js'
import type { QuotaStore } from '../store/store.js'
import type { Quota } from './quota.js'

/** A quota of a server, as `fastify.quotas` lists it. */
export interface QuotaInfo {
  /** `default`, or a key of the option `quotas`. */
  readonly name: string
  /** What the quota counts. */
  readonly unit: string
  /** The length of the window, in milliseconds; null for requests in flight and in a time zone. */
  readonly window: number | null
  /** The store that holds its counters. */
  readonly store: QuotaStore
  /** The name of its counters in the store. */
  readonly counters: string
}

/**
 * Removes a caller's own counter in every quota. The next request of the caller opens new windows.
 *
 * @param callerKey The caller's digest, as returned by `callerKey`.
 * @returns A promise that rejects if a store fails or has no `forget`, after all others have forgotten the caller.
 */
export type QuotaForgetter = (callerKey: string) => Promise<void>

/** The quotas of a server, in their order. */
export class QuotaList {
  readonly all: readonly Quota[]

  constructor (quotas: readonly Quota[]) {
    this.all = quotas
  }

  /**
   * Returns the quota with a name.
   *
   * @param where What the name was given to, for the error.
   * @throws {UnknownQuotaError} If there is none.
   */
  named (name: unknown, where: string): Quota {
    const quota = this.all.find((each) => each.name === name)
    if (quota === undefined) throw new UnknownQuotaError(where, this.all.map(({ name }) => name).join(', '), shown(name))
    return quota
  }

  /** The value of the decorator `fastify.quotas`. */
  describe (): readonly QuotaInfo[] {
    return Object.freeze(this.all.map(({ name, unit, window, store, counters }) => Object.freeze({ name, unit, window, store, counters })))
  }

  /** The function for the decorator `fastify.quotaForget`. */
  forget: QuotaForgetter = async (callerKey) => {
    if (typeof callerKey !== 'string') throw new TypeError(`the caller key must be a string; it got ${shown(callerKey)}`)
    const results = await Promise.allSettled(this.all.map(async ({ store, counters }) => {
      if (store.forget === undefined) throw new TypeError('the quota store has no function forget')
      await store.forget(callerKey, counters)
    }))
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }
}
