import { channel } from 'node:diagnostics_channel'
import type { QuotaStore } from '../store.js'

/**
 * Which store an `InsuredQuotaStore` uses: `both` if the primary decides for some of its shards and
 * the fallback for the others.
 */
export type InsuredQuotaStoreState = 'primary' | 'fallback' | 'both'

/**
 * The numbers of the shards that a call has reached, by the store that decides on their callers.
 */
export interface InsuredShards {
  /** The shards whose callers the primary counts. */
  readonly primary: readonly number[]
  /** The shards whose callers the fallback counts. */
  readonly fallback: readonly number[]
}

/**
 * The message that is published when an insured store switches between its primary and its
 * fallback.
 */
export interface InsuredQuotaStoreChange {
  /** The insured store that changed. */
  readonly store: QuotaStore
  /** The number of the primary's shard that changed; 0 if the primary has no shards. */
  readonly shard: number
  /** The store that decides on the callers of this shard from now on. */
  readonly state: 'primary' | 'fallback'
  /** The error of the primary; undefined if the primary works again. */
  readonly error: unknown
}

/**
 * The `node:diagnostics_channel` channel on which each change of a shard of an insured store is
 * published once.
 */
export const insuredStoreChanges = channel('fastify-llm-quota:insured-store')
