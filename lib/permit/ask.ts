import { storeDurations, type StoreDuration } from '../channels.js'
import { logFailure } from '../log.js'
import { isPromise } from '../promises.js'
import { acquireFrom, assertAcquisitions } from '../store/result-checks.js'
import { acquireSideBySide } from '../store/side-by-side.js'
import type { Acquisitions, Demand, QuotaStore, Settled } from '../store/store.js'
import { decideBy } from './decide.js'
import type { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'

/**
 * Asks the stores of the quotas of a request, in one step for each store, and decides by what they
 * return. Asks none if one of the quotas refuses the request without its store. A promise only if a
 * store returned one, or if there are several stores. Neither throws nor rejects.
 */
export function ask (
  quotas: readonly QuotaOfRequest[],
  requester: Requester
): PromiseLike<void> | undefined {
  const asked: QuotaOfRequest[] = []
  const demands: Demand[] = []
  let hasSeveralStores = false
  for (const each of quotas) {
    if (each.demand === null) {
      if (each.isRefused) return undefined
      continue
    }
    hasSeveralStores ||= asked[0] !== undefined && asked[0].quota.store !== each.quota.store
    asked.push(each)
    demands.push(each.demand)
  }
  const [first] = asked
  if (first === undefined) return undefined
  const startedAt = storeDurations.hasSubscribers ? performance.now() : null
  const asking = hasSeveralStores
    ? askSeveral(asked, requester)
    : askStore(first.quota.store, asked, demands, requester)
  if (startedAt === null) return asking
  const publish = (): void => {
    const seconds = (performance.now() - startedAt) / 1000
    storeDurations.publish({ server: requester.server.server, seconds } satisfies StoreDuration)
  }
  if (asking !== undefined) return asking.then(publish)
  publish()
  return undefined
}

/** Asks one store about all of these quotas in one step. */
function askStore (
  store: QuotaStore,
  asked: readonly QuotaOfRequest[],
  demands: readonly Demand[],
  requester: Requester
): PromiseLike<void> | undefined {
  try {
    const acquisitions: unknown = store.acquire(demands)
    // A promise of them, or what is found unusable once it has been awaited.
    if (!Array.isArray(acquisitions)) return decideLater(acquisitions, demands, asked, requester)
    assertAcquisitions(acquisitions, demands)
    decideEach(acquisitions, asked)
  } catch (error) {
    fail(error, asked, requester)
  }
  return undefined
}

async function decideLater (
  acquiring: unknown,
  demands: readonly Demand[],
  asked: readonly QuotaOfRequest[],
  requester: Requester
): Promise<void> {
  try {
    const acquisitions = await acquiring
    assertAcquisitions(acquisitions, demands)
    decideEach(acquisitions, asked)
  } catch (error) {
    fail(error, asked, requester)
  }
}

/**
 * Asks several stores at the same time, but none after one that rejects at once. What one counts
 * while another rejects or fails is given back, and so is what it grants beyond the others in its
 * unit.
 */
async function askSeveral (
  asked: readonly QuotaOfRequest[],
  requester: Requester
): Promise<void> {
  // The start-up does not check the default quota if it seems unused.
  if (asked.some(({ quota }) => quota.store.settle === undefined)) {
    const error = new TypeError('of several stores of a request, each needs the function settle')
    return fail(error, asked, requester)
  }
  const stores = new Map<Demand, QuotaStore>()
  for (const { demand, quota } of asked) {
    if (demand !== null) stores.set(demand, quota.store)
  }
  try {
    const acquisitions = await acquireSideBySide(stores, {
      acquire (store, part) {
        function failed (error: unknown): never {
          fail(error, asked.filter(({ quota }) => quota.store === store), requester)
          throw error
        }
        try {
          const acquiring = acquireFrom(store, part)
          return isPromise(acquiring) ? acquiring.then((each) => each, failed) : acquiring
        } catch (error) {
          return failed(error)
        }
      },
      // No line asks because of this: two lines whose first requests need room in both would make
      // each other ask in turn, without a pause. They find what comes free when they ask next.
      settle (store, receipt, less) {
        requester.server.closing.waitFor(giveBack(store, receipt, less, requester))
      }
    })
    decideEach(acquisitions, asked)
  } catch {
    // The quotas of the store that failed refuse the request.
  }
}

/** @param acquisitions One for each of the quotas. */
function decideEach (acquisitions: Acquisitions, asked: readonly QuotaOfRequest[]): void {
  let index = 0
  for (const each of asked) {
    const acquisition = acquisitions[index] ?? null
    index += 1
    if (each.demand !== null && acquisition !== null) decideBy(each, each.demand, acquisition)
  }
}

function fail (error: unknown, asked: readonly QuotaOfRequest[], { log }: Requester): void {
  const counters = asked.map(({ quota }) => quota.counters)
  const message = 'the quota store failed; it may have counted the request all the same'
  logFailure(log, error, message, { counters })
  for (const each of asked) each.fail('store')
}

/** Gives back what was counted for a request that does not use it. Never rejects. */
export async function giveBack (
  store: QuotaStore,
  receipt: unknown,
  less: Settled,
  { log }: Requester
): Promise<void> {
  try {
    await store.settle?.(receipt, less)
  } catch (error) {
    logFailure(log, error, 'what is not used could not be given back to the quota store')
  }
}
