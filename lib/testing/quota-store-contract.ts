import type { QuotaStore } from '../store/store.js'
import { boundsChecks } from './bounds-checks.js'
import { day, hour, minute, MissingFunction, Subject, type Check } from './checks.js'
import { counterChecks, oneStepChecks } from './counter-checks.js'
import { quotaChecks } from './quota-checks.js'
import { placeReadCheck, readChecks } from './read-checks.js'
import { placeReleaseChecks, releaseChecks } from './release-checks.js'
import { VirtualClock } from './virtual-clock.js'

const checksOfEachWindow = [...counterChecks, ...boundsChecks, ...readChecks, ...releaseChecks]
const otherChecks = [...oneStepChecks, ...quotaChecks, placeReadCheck, ...placeReleaseChecks]

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
 * passes. The rules of counters are also checked in quotas of an hour and of a day. A store can be divided into shards, each with a share
 * of the caller cap and an overflow counter of its own, as long as every shard tracks at least one caller.
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
export function quotaStoreContract (
  create: (options: QuotaStoreContractOptions) => QuotaStore | Promise<QuotaStore>
): QuotaStoreContractCheck[] {
  return [
    ...[...checksOfEachWindow, ...otherChecks].map((check) => checkOf(check, check.name, 'default', minute)),
    ...Object.entries({ hour, day }).flatMap(([name, window]) => checksOfEachWindow.map((check) =>
      checkOf(check, `${check.name}, in a quota with a window of one ${name}`, `chat.requests.${name}`, window)))
  ]

  function checkOf ({ cap, run }: Check, name: string, counters: string, window: number): QuotaStoreContractCheck {
    return {
      name,
      async run () {
        const clock = new VirtualClock()
        // In production, a store's clock does not start at 0.
        clock.advance(1_000_000)
        const store = await create({ clock: clock.now, maxTrackedCallers: cap })
        const subject = new Subject(store, clock, counters, window)
        try {
          await run(subject)
        } catch (error) {
          if (!(error instanceof MissingFunction)) throw error
        } finally {
          await Promise.allSettled(subject.places.map(async (place) => store.release?.(place, 1)))
        }
      }
    }
  }
}
