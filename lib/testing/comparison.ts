import { deepStrictEqual, ok } from 'node:assert/strict'
import { MemoryQuotaStore, type MemoryQuotaStoreOptions } from '../store/memory/memory-store.js'
import type { Acquisition, QuotaStore } from '../store/store.js'
import { flat, minute, Quota, range, type Steps } from './steps.js'
import { VirtualClock } from './virtual-clock.js'

/** A caller cap that is so small that a few callers need overflow counters. */
export const smallCap = 4

/** Callers of a shard: as many as it tracks, some that use its overflow counter meanwhile, all of these, and as many more as it tracks. */
export type Callers = Readonly<Record<'tracked' | 'overflowing' | 'all' | 'later', readonly number[]>>

/** Finds callers of a shard of an empty store with the small cap: its overflow counter shows a high cost of one to all. */
async function findCallers (store: QuotaStore): Promise<Callers> {
  const [callers, highCost] = [range(64), 1_000]
  const [marked = 0, ...others] = await select('first', callers, 1, ({ overflow }) => overflow)
  const trackedInAll = callers.length - 1 - others.length
  ok(trackedInAll >= 1 && trackedInAll <= smallCap, `${trackedInAll} callers got a counter of their own, and the caller cap is ${smallCap}`)
  await select('first', [marked], highCost, ({ overflow }) => overflow)
  const shard = (await select('first', others, 0, ({ count }) => count >= highCost)).slice(0, 16)
  const tracked = await select('second', shard, 1, ({ overflow }) => !overflow)
  const [overflowing, later] = [shard.slice(tracked.length, -tracked.length), shard.slice(-tracked.length)]
  ok(tracked.length >= 1 && overflowing.length >= 1, 'a shard tracks no callers, or too few of 64 callers are in it')
  return { tracked, overflowing, all: [...tracked, ...overflowing], later }

  async function select (counters: string, numbers: readonly number[], cost: number, isSelected: (acquisition: Acquisition) => boolean) {
    const selected: number[] = []
    for (const number of numbers) {
      const [acquisition] = await store.acquire([new Quota(counters, minute).demand(number, undefined, cost)])
      if (acquisition != null && isSelected(acquisition)) selected.push(number)
    }
    return selected
  }
}

type Create = (options: Required<MemoryQuotaStoreOptions>) => QuotaStore | Promise<QuotaStore>

/** Runs steps with a store, as far as it has their functions, and with a memory store, and asserts that both return the same. */
export async function compare (create: Create, cap: number, stepsOf: (callers: Callers) => Steps): Promise<void> {
  const clock = new VirtualClock()
  // In production, a store's clock does not start at 0.
  clock.advance(1_000_000)
  const store = await create({ clock: clock.now, maxTrackedCallers: cap })
  const callers = cap === smallCap ? await findCallers(store) : { tracked: [], overflowing: [], all: [], later: [] }
  const memory = new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers: callers.tracked.length || cap })
  try {
    for (const [index, step] of flat(stepsOf(callers)).entries()) {
      if (typeof step === 'number') {
        clock.advance(step)
      } else if (store[step.call] !== undefined) {
        const described = { step: index, call: step.call, demands: step.demands }
        const result = await step.run(store)
        deepStrictEqual({ ...described, result }, { ...described, result: await step.run(memory, store) })
      }
    }
  } finally {
    // A store on a server would renew the places of requests in flight.
    await Promise.allSettled([(async () => store.clearCounters?.())()])
  }
}
