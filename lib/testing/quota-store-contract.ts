import { deepStrictEqual, ok } from 'node:assert/strict'
import { MemoryQuotaStore, type MemoryQuotaStoreOptions } from '../store/memory/memory-store.js'
import type { Acquisition, QuotaStore } from '../store/store.js'
import {
  otherCapScripts,
  otherScripts,
  windowCapScripts,
  windowScripts,
  type Scripts
} from './scripts.js'
import { day, flat, hour, minute, places, Quota, range, type Callers, type Steps } from './steps.js'
import { VirtualClock } from './virtual-clock.js'

// So small a caller cap that a few callers need overflow counters.
const smallCap = 4

/**
 * The options with which to create the store under test. The store must not use any other clock.
 */
export interface QuotaStoreContractOptions extends Required<MemoryQuotaStoreOptions> {}

/** One check of a store, for any test runner. */
export interface QuotaStoreContractCheck {
  /** The rule, as a sentence. */
  readonly name: string
  /**
   * Creates a store and checks the rule. Rejects with an `AssertionError` if the store breaks it.
   */
  run(): Promise<void>
}

/**
 * Returns the checks of a store, one for each rule (docs/rules.md, "Store"): `for (const { name,
 * run } of quotaStoreContract((options) => new MemoryQuotaStore(options))) test(name, run)`.
 *
 * A check of an optional function that the store does not have passes. The rules of counters are
 * also checked in quotas of an hour and of a day. A store can be divided into shards, each with a
 * share of the caller cap and an overflow counter of its own, as long as every shard tracks at
 * least one caller.
 *
 * @param create Creates an empty store with the given clock and caller cap. A store that outlives
 *   the process, such as one on a server, must use different keys each time.
 * @returns The checks. They can run in any order.
 */
export function quotaStoreContract (
  create: (options: QuotaStoreContractOptions) => QuotaStore | Promise<QuotaStore>
): QuotaStoreContractCheck[] {
  return [
    ...checksOf(
      new Quota('default', minute),
      { ...windowScripts, ...otherScripts },
      { ...windowCapScripts, ...otherCapScripts }
    ),
    ...checksOf(
      new Quota('chat.requests.hour', hour),
      windowScripts,
      windowCapScripts,
      ', in a quota with a window of one hour'
    ),
    ...checksOf(
      new Quota('chat.requests.day', day),
      windowScripts,
      windowCapScripts,
      ', in a quota with a window of one day'
    )
  ]

  function checksOf (
    quota: Quota,
    scripts: Scripts,
    capScripts: Scripts,
    where = ''
  ): QuotaStoreContractCheck[] {
    const checkOf =
      (cap: number) =>
        ([name, stepsOf]: [string, Scripts[string]]) => ({
          name: name + where,
          run: () => compare(cap, (callers) => stepsOf(quota, callers))
        })
    return [
      ...Object.entries(scripts).map(checkOf(10_000)),
      ...Object.entries(capScripts).map(checkOf(smallCap))
    ]
  }

  /**
   * Runs steps with a store, as far as it has their functions, and with a memory store, and asserts
   * that both return the same.
   */
  async function compare (cap: number, stepsOf: (callers: Callers) => Steps): Promise<void> {
    const clock = new VirtualClock()
    // In production, a store's clock does not start at 0.
    clock.advance(1_000_000)
    const store = await create({ clock: clock.now, maxTrackedCallers: cap })
    const callers =
      cap === smallCap
        ? await findCallers(store)
        : { tracked: [], overflowing: [], all: [], later: [] }
    const memory = new MemoryQuotaStore({
      clock: clock.now,
      maxTrackedCallers: callers.tracked.length || cap
    })
    try {
      for (const [index, step] of flat(stepsOf(callers)).entries()) {
        if (typeof step === 'number') {
          clock.advance(step)
        } else if (store[step.call] !== undefined) {
          const described = { step: index, call: step.call, demands: step.demands }
          const result = await step.run(store)
          deepStrictEqual(
            { ...described, result },
            { ...described, result: await step.run(memory, store) }
          )
        }
      }
    } finally {
      // A store on a server would renew the places of requests in flight.
      await Promise.allSettled(
        (places.get(store) ?? []).map(async (place) => store.release?.(place, 1))
      )
      await Promise.allSettled([(async () => store.clearCounters?.())()])
    }
  }
}

/**
 * Finds callers of a shard of an empty store with the small cap: its overflow counter shows a high
 * cost of one to all.
 */
async function findCallers (store: QuotaStore): Promise<Callers> {
  const [callers, highCost] = [range(64), 1_000]
  const [marked = 0, ...others] = await select('first', callers, 1, ({ overflow }) => overflow)
  const trackedInAll = callers.length - 1 - others.length
  ok(
    trackedInAll >= 1 && trackedInAll <= smallCap,
    `${trackedInAll} callers got a counter of their own, and the caller cap is ${smallCap}`
  )
  await select('first', [marked], highCost, ({ overflow }) => overflow)
  const shard = (await select('first', others, 0, ({ count }) => count >= highCost)).slice(0, 16)
  const tracked = await select('second', shard, 1, ({ overflow }) => !overflow)
  const [overflowing, later] = [
    shard.slice(tracked.length, -tracked.length),
    shard.slice(-tracked.length)
  ]
  ok(
    tracked.length >= 1 && overflowing.length >= 1,
    'a shard tracks no callers, or too few of 64 callers are in it'
  )
  return { tracked, overflowing, all: [...tracked, ...overflowing], later }

  async function select (
    counters: string,
    numbers: readonly number[],
    cost: number,
    isSelected: (acquisition: Acquisition) => boolean
  ) {
    const selected: number[] = []
    for (const number of numbers) {
      const [acquisition] = await store.acquire([
        new Quota(counters, minute).demand(number, undefined, cost)
      ])
      if (acquisition != null && isSelected(acquisition)) selected.push(number)
    }
    return selected
  }
}
