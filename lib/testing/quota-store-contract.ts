import type { QuotaStore } from '../store/store.js'
import { forgetChecks, forgetOverflowChecks } from './forget-checks.js'
import { overflowChecks } from './overflow-checks.js'
import { peekChecks, peekOverflowChecks } from './peek-checks.js'
import { sweepChecks } from './sweep-checks.js'
import { VirtualClock } from './virtual-clock.js'
import { smallCap, type Checks } from './visits.js'
import { windowChecks } from './window-checks.js'

/**
 * The options with which to create the store under test.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore } from 'fastify-llm-quota'
 * import type { QuotaStoreContractOptions } from 'fastify-llm-quota/testing'
 *
 * const create = ({ clock, maxTrackedCallers }: QuotaStoreContractOptions) => new MemoryQuotaStore({ clock, maxTrackedCallers })
 * console.log(create({ clock: () => 0, maxTrackedCallers: 4 }).inspect().trackedCallers) // 0
 * ```
 */
export interface QuotaStoreContractOptions {
  /** Returns monotonic milliseconds. The store must not use any other clock. */
  readonly clock: () => number
  /** The caller cap: how many callers can have a counter of their own. */
  readonly maxTrackedCallers: number
}

/**
 * One check of a store, for any test runner.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore } from 'fastify-llm-quota'
 * import { quotaStoreContract, type QuotaStoreContractCheck } from 'fastify-llm-quota/testing'
 *
 * const checks: QuotaStoreContractCheck[] = quotaStoreContract((options) => new MemoryQuotaStore(options))
 * for (const { name, run } of checks.slice(0, 1)) await run().then(() => { console.log(name) }) // admits as many requests as the limit says, and rejects the next
 * ```
 */
export interface QuotaStoreContractCheck {
  /** The rule, as a sentence. */
  readonly name: string
  /** Creates a store and checks the rule. Rejects with an `AssertionError` if the store breaks it. */
  run (): Promise<void>
}

/**
 * Returns the checks of a store, one for each rule (docs/rules.md, "Store"). A store can be divided into shards, each with a share of
 * the caller cap and an overflow counter of its own, as long as every shard tracks at least one caller.
 *
 * @param create Creates an empty store with the given clock and caller cap. A store that outlives the process, such as one on a
 *   server, must use different keys each time.
 * @returns The checks. They can run in any order.
 *
 * @example
 * ```ts
 * import test from 'node:test'
 * import { MemoryQuotaStore } from 'fastify-llm-quota'
 * import { quotaStoreContract } from 'fastify-llm-quota/testing'
 *
 * for (const { name, run } of quotaStoreContract((options) => new MemoryQuotaStore(options))) test(name, run)
 * ```
 */
export function quotaStoreContract (create: (options: QuotaStoreContractOptions) => QuotaStore | Promise<QuotaStore>): QuotaStoreContractCheck[] {
  return [
    ...checksWithCap({ ...windowChecks, ...sweepChecks, ...peekChecks, ...forgetChecks }, 10_000),
    ...checksWithCap({ ...overflowChecks, ...peekOverflowChecks, ...forgetOverflowChecks }, smallCap)
  ]

  function checksWithCap (checks: Checks, maxTrackedCallers: number): QuotaStoreContractCheck[] {
    return Object.entries(checks).map(([name, check]) => ({
      name,
      async run () {
        const clock = new VirtualClock()
        // In production, a store's clock does not start at 0.
        clock.advance(1_000_000)
        await check({ store: await create({ clock: clock.now, maxTrackedCallers }) as Required<QuotaStore>, clock })
      }
    }))
  }
}
