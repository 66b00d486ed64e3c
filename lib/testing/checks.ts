import { AssertionError } from 'node:assert/strict'
import { localAuthentication } from '../caller/authentication.js'
import { callerKey } from '../caller/caller-key.js'
import type { Acquisition, QuotaStore } from '../store/store.js'
import type { VirtualClock } from './virtual-clock.js'

/** A store that has these optional functions. */
export type StoreWith<Needed extends keyof QuotaStore> = QuotaStore & Required<Pick<QuotaStore, Needed>>

/** A store under test: the store itself, or one of its named quotas. Times are in milliseconds. */
interface UnderTest<Store extends QuotaStore> {
  readonly store: Store
  readonly clock: VirtualClock
  /** The length of the window. */
  readonly window: number
  /** How long a counter is kept after its last request. */
  readonly retention: number
}

/** A check of a rule. */
export interface Check {
  /** The rule, as a sentence whose subject, unless it has one, is the store. */
  readonly name: string
  /** The caller cap of the store under test. */
  readonly maxTrackedCallers: number
  /** Rejects with an `AssertionError` if the store breaks the rule. Resolves without a check if the store lacks a function that the check needs. */
  run (underTest: UnderTest<QuotaStore>): Promise<void>
}

type ChecksByName<Needed extends keyof QuotaStore> = Record<string, (underTest: UnderTest<StoreWith<Needed>>) => Promise<void>>

/** A caller cap that no check reaches. */
export const largeCap = 10_000

/** A caller cap that is so small that some of `everyShard` callers use an overflow counter. */
export const smallCap = 4

/** Returns checks of stores with this caller cap, which need these optional functions. */
export function checks<Needed extends keyof QuotaStore = never> (maxTrackedCallers: number, needed: readonly Needed[], byName: ChecksByName<Needed>): Check[] {
  return Object.entries(byName).map(([name, check]) => ({
    name,
    maxTrackedCallers,
    async run ({ store, ...rest }) {
      if (hasAll(store, ...needed)) await check({ store, ...rest })
    }
  }))
}

/** Whether a store has all of these functions. */
export function hasAll<Needed extends keyof QuotaStore> (store: QuotaStore, ...needed: readonly Needed[]): store is StoreWith<Needed> {
  return needed.every((name) => typeof store[name] === 'function')
}

/** Enough callers to reach all shards of a store, because each shard has its own sweeps and overflow counter. */
export const everyShard = 32

/** A limit that admits always. */
export const unlimited = Number.MAX_SAFE_INTEGER

/** Returns the key of a caller in the checks. */
export function caller (number: number): string {
  return String(callerKey(localAuthentication(`caller ${number}`)))
}

/** Calls a function for each of `everyShard` callers in turn, starting with the caller `first`. */
export async function forEachCaller<Result> (first: number, call: (callerKey: string) => Result | Promise<Result>): Promise<Result[]> {
  const results: Result[] = []
  for (let number = first; number < first + everyShard; number++) results.push(await call(caller(number)))
  return results
}

/** The result of a request, and its caller. */
export interface Visit extends Acquisition { readonly caller: string }

/** Sends one request for each of `everyShard` callers, starting with the caller `first`. */
export async function visit (store: QuotaStore, first: number, limit = unlimited, cost = 1): Promise<Visit[]> {
  return forEachCaller(first, async (caller) => ({ ...await store.acquire(caller, limit, cost), caller }))
}

/** Fills a store with the small cap, and returns the first requests of the callers with a counter of their own and of the others. */
export async function fill (store: QuotaStore, limit = unlimited): Promise<{ tracked: Visit[], overflowing: [Visit, ...Visit[]] }> {
  const visits = await visit(store, 0, limit)
  const [first, ...others] = visits.filter(({ overflow }) => overflow)
  if (first === undefined) throw new AssertionError({ message: 'no caller used an overflow counter' })
  return { tracked: visits.filter(({ overflow }) => !overflow), overflowing: [first, ...others] }
}

/** Calls a function many times at once. */
export async function burst<Result> (call: (index: number) => Result | Promise<Result>): Promise<Result[]> {
  return Promise.all(Array.from({ length: everyShard }, async (_, index) => call(index)))
}

/** Returns how many were admitted. */
export function admitted (results: readonly { readonly admitted: boolean }[]): number {
  return results.filter(({ admitted }) => admitted).length
}
