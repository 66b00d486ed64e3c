import type { QuotaStore } from '../store.js'
import type { QuotaTimers } from '../../time-limit.js'

/** The primary of an `InsuredQuotaStore`. Any store can be one. */
export interface PrimaryQuotaStore extends QuotaStore {
  /** The caller cap, which the default fallback also has if it is not `Infinity`. */
  readonly maxTrackedCallers?: number
}

/** Options of `InsuredQuotaStore`. */
export interface InsuredQuotaStoreOptions {
  /** The store that is used as long as it answers. */
  readonly primary: PrimaryQuotaStore
  /**
   * The store that is used while the primary is unavailable. Default: a `MemoryQuotaStore` with
   * this clock and the primary's cap, at most 2^24.
   */
  readonly fallback?: QuotaStore
  /**
   * How long a store that has been asked may answer nothing at all, in milliseconds, until its
   * calls are given up. Stalls of the event loop are not counted. Default 100.
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

/** Which store an `InsuredQuotaStore` uses. */
export type InsuredQuotaStoreState = 'primary' | 'fallback'
