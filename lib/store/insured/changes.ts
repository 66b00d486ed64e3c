import { channel } from 'node:diagnostics_channel'
import type { QuotaStore } from '../store.js'

/**
 * Which store of an `InsuredQuotaStore` answers.
 *
 * @example
 * ```ts
 * import type { InsuredQuotaStoreState } from 'fastify-llm-quota'
 *
 * // The value for a gauge.
 * function primaryAnswers (state: InsuredQuotaStoreState): number {
 *   return state === 'primary' ? 1 : 0
 * }
 *
 * console.log(primaryAnswers('fallback')) // 0
 * ```
 */
export type InsuredQuotaStoreState = 'primary' | 'fallback'

/**
 * The message that is published when an insured store switches between its primary and its fallback.
 *
 * @example
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel'
 * import { InsuredQuotaStore, type InsuredQuotaStoreChange, type QuotaStore } from 'fastify-llm-quota'
 *
 * subscribe('fastify-llm-quota:insured-store', (message) => {
 *   const { state, error } = message as InsuredQuotaStoreChange
 *   console.log(`the ${state} answers:`, error instanceof Error ? error.message : 'recovered')
 * })
 *
 * const failing: QuotaStore = {
 *   acquire () { throw new Error('no connection') },
 *   peek: () => null,
 *   forget () {},
 *   clearCounters () {},
 *   inspect: () => ({ trackedCallers: 0, sweeps: 0 })
 * }
 * await new InsuredQuotaStore({ primary: failing }).acquire('a digest', 10) // the fallback answers: no connection
 * ```
 */
export class InsuredQuotaStoreChange {
  /** The insured store that changed. */
  readonly store: QuotaStore
  /** The store that answers from now on. */
  readonly state: InsuredQuotaStoreState
  /** The error of the primary; undefined if the primary answers again. */
  readonly error: unknown

  constructor (store: QuotaStore, state: InsuredQuotaStoreState, error: unknown) {
    this.store = store
    this.state = state
    this.error = error
  }
}

/** The `node:diagnostics_channel` channel on which each change of an insured store is published once. */
export const insuredStoreChanges = channel('fastify-llm-quota:insured-store')
