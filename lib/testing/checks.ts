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
  readonly cap: number
  /** Rejects with an `AssertionError` if the store breaks the rule. */
  run (underTest: UnderTest<QuotaStore>): Promise<void>
}

/** A caller cap that no check reaches. */
export const largeCap = 10_000

/** A caller cap that is so small that some of `everyShard` callers use an overflow counter. */
export const smallCap = 4

/** Enough callers to reach all shards of a store, because each shard has its own sweeps and overflow counter. */
export const everyShard = 32

/** A limit that admits always. */
export const unlimited = Number.MAX_SAFE_INTEGER

/** Returns a check of stores with this caller cap. A store that lacks one of the needed functions passes. */
export function check<Needed extends keyof QuotaStore> (
  name: string, cap: number, needed: readonly Needed[], run: (underTest: UnderTest<StoreWith<Needed>>) => Promise<void>
): Check {
  return { name, cap, run: async ({ store, ...rest }) => { if (hasAll(store, needed)) await run({ store, ...rest }) } }
}

/** Whether a store has all of these functions. */
export function hasAll<Needed extends keyof QuotaStore> (store: QuotaStore, needed: readonly Needed[]): store is StoreWith<Needed> {
  return needed.every((name) => typeof store[name] === 'function')
}

/** The result of an admitted request that a caller's own counter has counted. */
export function admitted (count: number, windowRemaining: number): Acquisition {
  return { admitted: true, count, windowRemaining, overflow: false }
}

/** The result of a request that a caller's own counter has rejected. */
export function rejected (count: number, windowRemaining: number): Acquisition {
  return { admitted: false, count, windowRemaining, overflow: false }
}

/** Calls a function for each item, one after another. */
export async function inTurn<Item, Result> (items: readonly Item[], call: (item: Item) => Result | Promise<Result>): Promise<Result[]> {
  const results: Result[] = []
  for (const item of items) results.push(await call(item))
  return results
}

/** Calls a function many times at once. */
export async function burst<Result> (call: (index: number) => Result | Promise<Result>): Promise<Result[]> {
  return Promise.all(Array.from({ length: everyShard }, async (_, index) => call(index)))
}

/** Returns the key of a caller in the checks. */
export function caller (number: number): string {
  return String(callerKey(localAuthentication(`caller ${number}`)))
}

/** Returns the keys of `everyShard` callers, starting with the caller `first`. */
export function callersFrom (first: number): string[] {
  return Array.from({ length: everyShard }, (_, index) => caller(first + index))
}

/** The result of a request, and its caller. */
interface Visit extends Acquisition { readonly caller: string }

/** Sends one request for each of `everyShard` callers, starting with the caller `first`. */
export async function visit (store: QuotaStore, first: number, limit = unlimited): Promise<Visit[]> {
  return inTurn(callersFrom(first), async (caller) => ({ ...await store.acquire(caller, limit), caller }))
}

/** Sends such requests and returns how many callers have a counter of their own. */
export async function trackedOf (store: QuotaStore, first: number): Promise<number> {
  return (await visit(store, first)).filter(({ overflow }) => !overflow).length
}

/** Fills a store with the small cap and returns the first requests of the callers with a counter of their own and of the others. */
export async function fill (store: QuotaStore, limit = unlimited): Promise<{ tracked: Visit[], overflowing: [Visit, ...Visit[]] }> {
  const visits = await visit(store, 0, limit)
  const [first, ...others] = visits.filter(({ overflow }) => overflow)
  if (first === undefined) throw new AssertionError({ message: 'no caller used an overflow counter' })
  return { tracked: visits.filter(({ overflow }) => !overflow), overflowing: [first, ...others] }
}

/** Returns how many were admitted. */
export function numberAdmitted (results: readonly { readonly admitted: boolean }[]): number {
  return results.filter(({ admitted }) => admitted).length
}
