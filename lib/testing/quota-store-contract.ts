import type { MemoryQuotaStoreOptions } from '../store/memory/memory-store.js'
import type { QuotaStore } from '../store/store.js'
import { compare, smallCap } from './comparison.js'
import { otherCapScripts, otherScripts, windowCapScripts, windowScripts, type Scripts } from './scripts.js'
import { day, hour, minute, Quota } from './steps.js'

/** The options with which to create the store under test. The store must not use any other clock. */
export interface QuotaStoreContractOptions extends Required<MemoryQuotaStoreOptions> {}

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
    ...checksOf(new Quota('default', minute), { ...windowScripts, ...otherScripts }, { ...windowCapScripts, ...otherCapScripts }),
    ...checksOf(new Quota('chat.requests.hour', hour), windowScripts, windowCapScripts, ', in a quota with a window of one hour'),
    ...checksOf(new Quota('chat.requests.day', day), windowScripts, windowCapScripts, ', in a quota with a window of one day')
  ]

  function checksOf (quota: Quota, scripts: Scripts, capScripts: Scripts, where = ''): QuotaStoreContractCheck[] {
    const checkOf = (cap: number) => ([name, stepsOf]: [string, Scripts[string]]) =>
      ({ name: name + where, run: () => compare(create, cap, (callers) => stepsOf(quota, callers)) })
    return [...Object.entries(scripts).map(checkOf(10_000)), ...Object.entries(capScripts).map(checkOf(smallCap))]
  }
}
