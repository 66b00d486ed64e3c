import { assertFunction, assertMilliseconds, assertOptions, withFunctions } from '../../option-checks.js'
import { assertStore, type QuotaStore } from '../store.js'
import type { QuotaTimers } from '../../time-limit.js'

/** The primary of an `InsuredQuotaStore`. Every store can be one. */
export interface PrimaryQuotaStore extends QuotaStore {
  /** The caller cap, which the default fallback takes over. */
  readonly maxTrackedCallers?: number
  /** Returns the number of the caller's shard. A shard is a part of the callers that can fail while the others work. */
  shardOf? (callerKey: string): number
}

/** Options of `InsuredQuotaStore`. */
export interface InsuredQuotaStoreOptions {
  /** The store that is used as long as it answers. */
  readonly primary: PrimaryQuotaStore
  /** The store that is used while the primary is unavailable. Default: a new `MemoryQuotaStore` with the same clock and the primary's caller cap. */
  readonly fallback?: QuotaStore
  /**
   * How long a request waits at most, in milliseconds. Default 100. The primary gets all of it if the fallback is a `MemoryQuotaStore`. Any
   * other fallback may have to be waited for as well, so then each of the two stores gets half.
   */
  readonly timeout?: number
  /** How long the primary is not called after a failure, in milliseconds. Then a request tries it again. Default 1000. */
  readonly coolDown?: number
  /** Returns monotonic milliseconds. Default `performance.now`. Replace it in tests. */
  readonly clock?: () => number
  /** The timers that measure `timeout`. Default: Node's timers, unreferenced so that they do not keep the process alive. Replace them in tests. */
  readonly timers?: QuotaTimers
}

/** Throws an `OptionError` unless all options have valid values. */
export function assertInsuredOptions (options: unknown): asserts options is InsuredQuotaStoreOptions {
  assertOptions<InsuredQuotaStoreOptions>(options, {
    primary: assertStore,
    fallback: assertStore,
    timeout: assertMilliseconds,
    coolDown: assertMilliseconds,
    clock: assertFunction,
    timers: withFunctions('timers', 'setTimeout', 'clearTimeout')
  })
  assertStore(options.primary, 'primary')
}
