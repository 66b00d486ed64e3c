import type { QuotaStore } from '../store.js'
import type { QuotaTimers } from '../../time-limit.js'

/** The primary of an `InsuredQuotaStore`. Any store can be one. */
export interface PrimaryQuotaStore extends QuotaStore {
  /** The caller cap, which the default fallback also has. */
  readonly maxTrackedCallers?: number
  /**
   * Returns the number of the caller's shard. A shard is a group of callers whose decisions can
   * fail while those of the others succeed.
   */
  shardOf?(callerKey: string): number
}

/** Options of `InsuredQuotaStore`. */
export interface InsuredQuotaStoreOptions {
  /** The store that is used as long as it responds. */
  readonly primary: PrimaryQuotaStore
  /**
   * The store that is used while the primary is unavailable. Default: a `MemoryQuotaStore` with
   * this clock and the primary's cap.
   */
  readonly fallback?: QuotaStore
  /**
   * The maximum time that a request waits, in milliseconds. Default 100. With a `MemoryQuotaStore`
   * as the fallback, the primary can use all of it; with any other fallback, each of the two stores
   * can use half.
   */
  readonly timeout?: number
  /**
   * How long the primary is not called after a failure, in milliseconds. Then one request tries it
   * again. Default 1000.
   */
  readonly coolDown?: number
  /** Returns monotonic milliseconds. Default `performance.now`. Replace it in tests. */
  readonly clock?: () => number
  /**
   * The timers that measure `timeout`. Default: Node's timers, which do not keep the process alive.
   * Replace them in tests.
   */
  readonly timers?: QuotaTimers
}

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
