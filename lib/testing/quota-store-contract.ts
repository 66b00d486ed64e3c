import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { localAuthentication } from '../authentication.js'
import { callerKey } from '../caller.js'
import type { Acquisition, QuotaStore } from '../store.js'
import { counterRetention, sweepInterval } from '../sweep.js'
import { windowLength } from '../window.js'
import { VirtualClock } from './virtual-clock.js'

/**
 * What the store under test must be made with.
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
  /** The only clock that the store may look at; monotonic milliseconds. */
  readonly clock: () => number
  /** How many callers may have a counter of their own. */
  readonly maxTrackedCallers: number
}

/**
 * One check of a store, for any test runner: it rejects with an `AssertionError` where the store breaks the specification.
 *
 * @example
 * ```ts
 * import { MemoryQuotaStore } from 'fastify-llm-quota'
 * import { quotaStoreContract, type QuotaStoreContractCheck } from 'fastify-llm-quota/testing'
 *
 * const checks: QuotaStoreContractCheck[] = quotaStoreContract((options) => new MemoryQuotaStore(options))
 * for (const { name, run } of checks.slice(0, 1)) await run().then(() => { console.log(name) }) // admits up to the limit and rejects from there on
 * ```
 */
export interface QuotaStoreContractCheck {
  /** The rule, as a sentence. */
  readonly name: string
  /** Makes a store and checks the rule on it. */
  run (): Promise<void>
}

interface Subject { readonly store: QuotaStore, readonly clock: VirtualClock }

type Checks = Record<string, (subject: Subject) => Promise<void>>

// Enough callers to reach each of a store's shards, which sweep and overflow by themselves.
const everyShard = 64

// So small that these callers overflow.
const smallCap = 4

/**
 * Checks a store against the specification, sections 3 and 8, one rule each. A store may be divided into parts that
 * share the cap and have each an overflow counter of its own, as long as every part tracks at least one caller.
 *
 * @param create Makes the store under test, empty and on the clock that it is given.
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
  return [...checksWithCap(checks, 10_000), ...checksWithCap(overflowChecks, smallCap)]

  function checksWithCap (checks: Checks, maxTrackedCallers: number): QuotaStoreContractCheck[] {
    return Object.entries(checks).map(([name, check]) => ({
      name,
      async run () {
        const clock = new VirtualClock()
        // A store's clock has been running for a while before it is asked first.
        clock.advance(1_000_000)
        await check({ store: await create({ clock: clock.now, maxTrackedCallers }), clock })
      }
    }))
  }
}

const checks: Checks = {
  async 'admits up to the limit and rejects from there on' ({ store }) {
    for (let request = 1; request <= 3; request++) {
      deepStrictEqual(await store.acquire(caller(1), 3), { admitted: true, count: request, windowRemaining: windowLength, overflow: false })
    }
    deepStrictEqual(await store.acquire(caller(1), 3), { admitted: false, count: 3, windowRemaining: windowLength, overflow: false })
  },

  async 'counts each caller by itself' ({ store }) {
    await store.acquire(caller(1), 1)
    strictEqual((await store.acquire(caller(2), 1)).admitted, true)
    strictEqual((await store.acquire(caller(1), 1)).admitted, false)
  },

  async 'does not count what it rejects' ({ store }) {
    await store.acquire(caller(1), 1)
    for (let request = 0; request < 5; request++) strictEqual((await store.acquire(caller(1), 1)).count, 1)
    deepStrictEqual(await store.acquire(caller(1), 2), { admitted: true, count: 2, windowRemaining: windowLength, overflow: false })
  },

  async 'applies the limit of each request' ({ store }) {
    for (let request = 0; request < 3; request++) await store.acquire(caller(1), 3)
    strictEqual((await store.acquire(caller(1), 2)).admitted, false)
    strictEqual((await store.acquire(caller(1), 4)).admitted, true)
    strictEqual((await store.acquire(caller(1), 4)).admitted, false)
    strictEqual((await store.acquire(caller(1), Number.MAX_SAFE_INTEGER)).count, 5)
  },

  async 'takes exactly so many of the requests that come at once' ({ store }) {
    const acquisitions = await Promise.all(Array.from({ length: 40 }, async () => store.acquire(caller(1), 5)))
    strictEqual(acquisitions.filter(({ admitted }) => admitted).length, 5)
  },

  async 'keeps the window open for 60 s less 1 ms' ({ store, clock }) {
    await store.acquire(caller(1), 1)
    clock.advance(windowLength - 1)
    deepStrictEqual(await store.acquire(caller(1), 1), { admitted: false, count: 1, windowRemaining: 1, overflow: false })
  },

  async 'opens a new window after 60 s' ({ store, clock }) {
    await store.acquire(caller(1), 1)
    clock.advance(windowLength)
    deepStrictEqual(await store.acquire(caller(1), 1), { admitted: true, count: 1, windowRemaining: windowLength, overflow: false })
    strictEqual((await store.acquire(caller(1), 1)).admitted, false)
  },

  async 'opens a new window after 60 s of being asked in vain' ({ store, clock }) {
    await store.acquire(caller(1), 1)
    clock.advance(windowLength / 2)
    strictEqual((await store.acquire(caller(1), 1)).windowRemaining, windowLength / 2)
    clock.advance(windowLength / 2)
    strictEqual((await store.acquire(caller(1), 1)).admitted, true)
  },

  async 'counts from the start of the window, not back from now' ({ store, clock }) {
    await store.acquire(caller(1), 2)
    clock.advance(windowLength - 1)
    await store.acquire(caller(1), 2)
    clock.advance(1)
    strictEqual((await store.acquire(caller(1), 2)).count, 1)
  },

  async 'sweeps a caller that was last seen 120 s ago' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(counterRetention)
    await visit(store, everyShard)
    strictEqual((await store.inspect()).trackedCallers, everyShard)
  },

  async 'sweeps no caller that was seen less than 120 s ago' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(counterRetention - 1)
    await visit(store, everyShard)
    strictEqual((await store.inspect()).trackedCallers, 2 * everyShard)
  },

  async 'sees a caller that it rejects' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(windowLength - 1)
    await visit(store, 0)
    clock.advance(counterRetention - 1)
    await visit(store, everyShard)
    strictEqual((await store.inspect()).trackedCallers, 2 * everyShard)
  },

  async 'sweeps not until 60 s after the previous sweep' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(sweepInterval - 1)
    await visit(store, 0)
    strictEqual((await store.inspect()).sweeps, 0)
    clock.advance(1)
    await visit(store, 0)
    const { sweeps } = await store.inspect()
    ok(sweeps > 0)
    clock.advance(sweepInterval - 1)
    await visit(store, 0)
    strictEqual((await store.inspect()).sweeps, sweeps)
    clock.advance(1)
    await visit(store, 0)
    strictEqual((await store.inspect()).sweeps, 2 * sweeps)
  }
}

const overflowChecks: Checks = {
  async 'tracks no more callers than it may' ({ store }) {
    const overflowing = await overflow(store, 1_000)
    ok(overflowing.length > 0, 'no caller was served by an overflow counter')
    ok((await store.inspect()).trackedCallers <= smallCap)
    strictEqual((await store.inspect()).trackedCallers + overflowing.length, everyShard)
  },

  async 'shares the overflow counter among the callers without one of their own' ({ store }) {
    const admitted = (await overflow(store, 1)).filter((acquisition) => acquisition.admitted)
    ok(admitted.length >= 1 && admitted.length <= smallCap, `overflow counters admitted ${admitted.length} callers in place of 1 each`)
  },

  async 'gives the overflow counter the window and the limit of any other' ({ store, clock }) {
    const [first] = await overflow(store, 1_000)
    ok(first !== undefined)
    const { caller, ...acquisition } = first
    deepStrictEqual(acquisition, { admitted: true, count: 1, windowRemaining: windowLength, overflow: true })
    clock.advance(windowLength - 1)
    const { count, windowRemaining } = await store.acquire(caller, 1_000)
    ok(count > 1)
    strictEqual(windowRemaining, 1)
    strictEqual((await store.acquire(caller, count)).admitted, false)
    clock.advance(1)
    deepStrictEqual(await store.acquire(caller, 1), { admitted: true, count: 1, windowRemaining: windowLength, overflow: true })
  },

  async 'leaves a caller the counter that it has' ({ store }) {
    await store.acquire(caller(0), 2)
    await overflow(store, 1)
    deepStrictEqual(await store.acquire(caller(0), 2), { admitted: true, count: 2, windowRemaining: windowLength, overflow: false })
  },

  async 'sweeps before it looks a caller up' ({ store, clock }) {
    await overflow(store, 1)
    clock.advance(counterRetention)
    strictEqual((await store.acquire(caller(2 * everyShard), 1)).overflow, false)
  },

  async 'forgets everything when it is cleared' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(sweepInterval)
    const before = await overflow(store, 1)
    await store.clearCounters()
    deepStrictEqual(await store.inspect(), { trackedCallers: 0, sweeps: 0 })
    deepStrictEqual(await overflow(store, 1), before)
    strictEqual((await store.inspect()).sweeps, 0)
  }
}

function caller (number: number): string {
  return String(callerKey(localAuthentication(`caller ${number}`)))
}

interface Visit extends Acquisition { readonly caller: string }

/** One request of each of as many callers as reach every shard, from a first one on. */
async function visit (store: QuotaStore, first: number, limit = 1): Promise<Visit[]> {
  const visits: Visit[] = []
  for (let number = first; number < first + everyShard; number++) {
    visits.push({ ...await store.acquire(caller(number), limit), caller: caller(number) })
  }
  return visits
}

/** The same of callers of whom few are tracked: the visits that an overflow counter answered. */
async function overflow (store: QuotaStore, limit: number): Promise<Visit[]> {
  return (await visit(store, 0, limit)).filter((visited) => visited.overflow)
}
