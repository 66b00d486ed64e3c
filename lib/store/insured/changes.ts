import { channel } from 'node:diagnostics_channel'
import type { QuotaStore } from '../store.js'

/** Which store of an `InsuredQuotaStore` answers: `both` if the primary answers for some of its shards and the fallback for the others. */
export type InsuredQuotaStoreState = 'primary' | 'fallback' | 'both'

/** The message that is published when an insured store switches between its primary and its fallback. */
export interface InsuredQuotaStoreChange {
  /** The insured store that changed. */
  readonly store: QuotaStore
  /** The number of the primary's shard that changed; 0 if the primary has no shards. */
  readonly shard: number
  /** The store that answers the callers of this shard from now on. */
  readonly state: 'primary' | 'fallback'
  /** The error of the primary; undefined if the primary answers again. */
  readonly error: unknown
}

/** The `node:diagnostics_channel` channel on which each change of a shard of an insured store is published once. */
export const insuredStoreChanges = channel('fastify-llm-quota:insured-store')
