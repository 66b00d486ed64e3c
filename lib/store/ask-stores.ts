import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { storeDurations, type StoreDuration } from '../channels.js'
import { logFailure } from '../log.js'
import { acquireSideBySide } from './side-by-side.js'
import { isPromise } from '../promises.js'
import { assertAcquisitions, type Acquisition, type Demand, type QuotaStore } from './store.js'

/** What a store has answered to a demand; null if it was not asked about it. */
export type StoreAnswer = Acquisition | 'failed' | null

/** For whom stores are asked. */
export interface StoreUser {
  readonly request: FastifyRequest | null
  readonly log: FastifyBaseLogger
}

/**
 * Asks the stores of the demands of one request, each in one step for all of its demands and all at
 * the same time. If one of them rejects or fails, the others are settled with 0. Never rejects: a
 * failure is logged.
 *
 * @param stores The store of each demand.
 * @param wait Receives what is settled while nobody waits for it.
 * @returns The answer to each demand, in their order.
 */
export function askStores (
  demands: readonly Demand[],
  stores: readonly QuotaStore[],
  user: StoreUser,
  wait: (settling: Promise<void>) => void
): Promise<readonly StoreAnswer[]> {
  const [first] = stores
  if (first === undefined) return Promise.resolve([])
  for (const store of stores) {
    if (store !== first) return askSeveral(demands, stores, user, wait)
  }
  return askStore(first, demands, user)
}

async function askSeveral (
  demands: readonly Demand[],
  stores: readonly QuotaStore[],
  user: StoreUser,
  wait: (settling: Promise<void>) => void
): Promise<readonly StoreAnswer[]> {
  const failed = new Set<QuotaStore>()
  // At the start, it is not known which quotas meet in one request.
  if (stores.some((store) => store.settle === undefined)) {
    const error = new TypeError('of several stores of a request, each needs the function settle')
    logFailure(user.log, error, 'the quota store failed; the request is not counted')
    return demands.map(() => 'failed' as const)
  }
  const acquisitions = await acquireSideBySide(
    demands,
    stores,
    async (store, part) => {
      const answers = await askStore(store, part, user)
      if (answers.includes('failed')) failed.add(store)
      return answers.map((answer) => (answer === 'failed' ? null : answer))
    },
    (store, acquisition) => {
      wait(takeBack(store, acquisition, user))
    }
  )
  return acquisitions.map((acquisition, index) => {
    const store = stores[index]
    return acquisition === null && store !== undefined && failed.has(store) ? 'failed' : acquisition
  })
}

function askStore (
  store: QuotaStore,
  demands: readonly Demand[],
  user: StoreUser
): Promise<readonly StoreAnswer[]> {
  return storeDurations.hasSubscribers
    ? askTimed(store, demands, user)
    : askUntimed(store, demands, user)
}

async function askTimed (
  store: QuotaStore,
  demands: readonly Demand[],
  user: StoreUser
): Promise<readonly StoreAnswer[]> {
  const startedAt = performance.now()
  const answers = await askUntimed(store, demands, user)
  const seconds = (performance.now() - startedAt) / 1000
  storeDurations.publish({ request: user.request, seconds } satisfies StoreDuration)
  return answers
}

async function askUntimed (
  store: QuotaStore,
  demands: readonly Demand[],
  user: StoreUser
): Promise<readonly StoreAnswer[]> {
  try {
    const answered = store.acquire(demands)
    const acquisitions = isPromise(answered) ? await answered : answered
    assertAcquisitions(acquisitions, demands)
    return acquisitions
  } catch (error) {
    const counters = demands.map((demand) => demand.counters)
    const message = 'the quota store failed; the request is not counted'
    logFailure(user.log, error, message, { counters })
    return demands.map(() => 'failed' as const)
  }
}

/** Settles with 0 what was counted for a request that does not use it. Never rejects. */
export async function takeBack (
  store: QuotaStore,
  acquisition: Acquisition,
  user: StoreUser
): Promise<void> {
  try {
    await store.settle?.(acquisition, 0, acquisition.end ?? null)
  } catch (error) {
    logFailure(user.log, error, 'what is not used could not be taken back from the quota store')
  }
}
