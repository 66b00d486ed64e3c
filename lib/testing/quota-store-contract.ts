import type { QuotaStore } from '../store/store.js'
import { boundsChecks } from './bounds-checks.js'
import type { Check } from './checks.js'
import { counterChecks } from './counter-checks.js'
import { inFlightChecks } from './in-flight-checks.js'
import { peekAndForgetChecks } from './peek-and-forget-checks.js'
import { quotaChecks } from './quota-checks.js'
import { VirtualClock } from './virtual-clock.js'

const checksOfEachQuota = [...counterChecks, ...boundsChecks, ...peekAndForgetChecks, ...inFlightChecks]

const minute = 60_000

// The named quotas whose stores are checked like the store itself.
const longerWindows = { hour: 60 * minute, day: 24 * 60 * minute }

/** The options with which to create the store under test. */
export interface QuotaStoreContractOptions {
  /** Returns monotonic milliseconds. The store must not use any other clock. */
  readonly clock: () => number
  /** The caller cap: how many callers can have a counter of their own. */
  readonly maxTrackedCallers: number
}

/** One check of a store, for any test runner. */
export interface QuotaStoreContractCheck {
  /** The rule, as a sentence. */
  readonly name: string
  /** Creates a store and checks the rule. Rejects with an `AssertionError` if the store breaks it. */
  run (): Promise<void>
}

/**
 * Returns the checks of a store, one for each rule (docs/rules.md, "Store"). A check of an optional function that the store does not have
 * passes. If the store has the function `quota`, the rules of counters are also checked in quotas of an hour and of a day. A store can be
 * divided into shards, each with a share of the caller cap and an overflow counter of its own, as long as every shard tracks at least one
 * caller.
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
    ...[...checksOfEachQuota, ...quotaChecks].map((check) => checkOf(check, check.name, minute, (store) => store)),
    ...Object.entries(longerWindows).flatMap(([length, window]) => checksOfEachQuota.map((check) =>
      checkOf(check, `${check.name}, in a quota with a window of one ${length}`, window, (store) => store.quota?.(`per-${length}`, window))))
  ]

  function checkOf ({ cap, run }: Check, name: string, window: number, quotaOf: (store: QuotaStore) => QuotaStore | undefined): QuotaStoreContractCheck {
    return {
      name,
      async run () {
        const clock = new VirtualClock()
        // In production, a store's clock does not start at 0.
        clock.advance(1_000_000)
        const store = quotaOf(await create({ clock: clock.now, maxTrackedCallers: cap }))
        if (store !== undefined) await run({ store, clock, window, retention: window + minute })
      }
    }
  }
}
