import { localAuthentication } from '../caller/authentication.js'
import { callerKey } from '../caller/caller-key.js'
import type { Acquisition, QuotaCount, QuotaStore } from '../store/store.js'
import type { VirtualClock } from './virtual-clock.js'

/** A store under test, and its clock. */
export interface StoreUnderTest { readonly store: Required<QuotaStore>, readonly clock: VirtualClock }

/** Checks by name. The name is the rule, as a sentence. */
export type Checks = Record<string, (underTest: StoreUnderTest) => Promise<void>>

/** Enough callers to reach all shards of a store, because each shard has its own sweeps and overflow counter. */
export const everyShard = 64

/** A caller cap that is so small that some of these callers use an overflow counter. */
export const smallCap = 4

/** Returns the key of a caller in the checks. */
export function caller (number: number): string {
  return String(callerKey(localAuthentication(`caller ${number}`)))
}

/** The result of a request, and its caller. */
export interface Visit extends Acquisition { readonly caller: string }

/** Sends one request for each of `everyShard` callers, starting with the caller `first`. */
export async function visit (store: Required<QuotaStore>, first: number, limit = 1): Promise<Visit[]> {
  const visits: Visit[] = []
  for (let number = first; number < first + everyShard; number++) {
    visits.push({ ...await store.acquire(caller(number), limit), caller: caller(number) })
  }
  return visits
}

/** Sends requests to a store with the small cap, and returns those that used an overflow counter. */
export async function overflow (store: Required<QuotaStore>, limit: number): Promise<Visit[]> {
  return (await visit(store, 0, limit)).filter((visited) => visited.overflow)
}

/** Calls `peek` for each of `everyShard` callers, starting with the caller `first`. */
export async function peekAtEach (store: Required<QuotaStore>, first: number): Promise<(QuotaCount | null)[]> {
  const peeked: (QuotaCount | null)[] = []
  for (let number = first; number < first + everyShard; number++) peeked.push(await store.peek(caller(number)))
  return peeked
}

/** Calls `forget` for each of `everyShard` callers, starting with the caller `first`. */
export async function forgetEach (store: Required<QuotaStore>, first: number): Promise<void> {
  for (let number = first; number < first + everyShard; number++) await store.forget(caller(number))
}
