import { hasFunction, OptionError } from '../../errors.js'
import { assertStore, type QuotaStore } from '../store.js'
import type { QuotaTimers } from './timers.js'

/**
 * Options of `InsuredQuotaStore`.
 *
 * @example
 * ```ts
 * import { InsuredQuotaStore, MemoryQuotaStore, type InsuredQuotaStoreOptions } from 'fastify-llm-quota'
 *
 * const options: InsuredQuotaStoreOptions = {
 *   primary: new MemoryQuotaStore(), // in production a RedisQuotaStore
 *   fallback: new MemoryQuotaStore({ maxTrackedCallers: 2_000 }),
 *   timeout: 50,
 *   coolDown: 5_000
 * }
 * console.log(new InsuredQuotaStore(options).state) // primary
 * ```
 */
export interface InsuredQuotaStoreOptions {
  /** The store that is used as long as it answers. */
  readonly primary: QuotaStore
  /** The store that is used while the primary is unavailable. Default: a new `MemoryQuotaStore` with the same clock. */
  readonly fallback?: QuotaStore
  /** How long the primary may take to answer, in milliseconds. Default 100. */
  readonly timeout?: number
  /** How long the primary is not called after a failure, in milliseconds. Then a request tries it again. Default 1000. */
  readonly coolDown?: number
  /** Returns monotonic milliseconds. Default `performance.now`. Replace it in tests. */
  readonly clock?: () => number
  /** The timers that measure `timeout`. Default: Node's timers, unreferenced so that they do not keep the process alive. Replace them in tests. */
  readonly timers?: QuotaTimers
}

/** The option names that `assertOptionNames` accepts. */
export const insuredOptionNames = ['primary', 'fallback', 'timeout', 'coolDown', 'clock', 'timers'] satisfies (keyof InsuredQuotaStoreOptions)[]

// The longest delay that Node's timers support.
const longestDelay = 2 ** 31 - 1

/** Throws an `OptionError` unless all options have valid values. */
export function assertInsuredOptions ({ primary, fallback, timeout, coolDown, clock, timers }: Required<InsuredQuotaStoreOptions>): void {
  assertStore(primary, 'primary')
  assertStore(fallback, 'fallback')
  assertMilliseconds('timeout', timeout)
  assertMilliseconds('coolDown', coolDown)
  if (typeof clock !== 'function') throw new OptionError('clock', 'must be a function', clock)
  for (const name of ['setTimeout', 'clearTimeout']) {
    if (!hasFunction(timers, name)) throw new OptionError('timers', `must have a function ${name}`, timers)
  }
}

function assertMilliseconds (name: string, value: unknown): void {
  if (typeof value !== 'number' || !(value > 0) || value > longestDelay) {
    throw new OptionError(name, `must be a number of milliseconds above 0, at most ${longestDelay}`, value)
  }
}
