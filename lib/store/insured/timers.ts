/**
 * The timers of an `InsuredQuotaStore`. `VirtualClock` and `node:timers` have these functions.
 *
 * @example
 * ```ts
 * import timers from 'node:timers'
 * import { InsuredQuotaStore, MemoryQuotaStore, type QuotaTimers } from 'fastify-llm-quota'
 *
 * const counted: QuotaTimers = {
 *   setTimeout (callback, delay) {
 *     console.log(`timer for ${delay} ms`)
 *     return timers.setTimeout(callback, delay)
 *   },
 *   clearTimeout: timers.clearTimeout
 * }
 * console.log(new InsuredQuotaStore({ primary: new MemoryQuotaStore(), timers: counted }).state) // primary
 * ```
 */
export interface QuotaTimers {
  /**
   * Calls a function once after a delay.
   *
   * @param delay Milliseconds; at least 1, not necessarily an integer.
   * @returns The timer, for `clearTimeout`.
   */
  setTimeout (callback: () => void, delay: number): unknown
  /** Cancels a timer. */
  clearTimeout (timer: unknown): void
}

/** Node's timers, unreferenced so that a store does not keep the process alive. */
export const nodeTimers = {
  setTimeout: (callback: () => void, delay: number): NodeJS.Timeout => setTimeout(callback, delay).unref(),
  clearTimeout (timer: NodeJS.Timeout): void { clearTimeout(timer) }
} satisfies QuotaTimers
