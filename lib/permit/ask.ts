import { logFailure } from '../log.js'
import { isPromise, then, type Eventual } from '../promises.js'
import { acquireSideBySide } from '../store/side-by-side.js'
import {
  assertAcquisitions,
  type Acquisition,
  type Acquisitions,
  type Demand,
  type QuotaStore
} from '../store/store.js'
import { decide } from './decide.js'
import type { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'

/**
 * Asks the stores of the enforced quotas of a request, in one step for each store. If all of them
 * admit the request, asks those of its shadow quotas, each on its own. Notes what they answered.
 * Neither throws nor rejects.
 */
export function ask (reached: readonly QuotaOfRequest[], requester: Requester): Eventual<void> {
  for (const { quota } of reached) {
    if (!quota.isEnforced) return askShadowsLast(reached, requester)
  }
  return askTogether(reached, requester)
}

function askShadowsLast (
  reached: readonly QuotaOfRequest[],
  requester: Requester
): Eventual<void> {
  const enforced = reached.filter(({ quota }) => quota.isEnforced)
  return then(askTogether(enforced, requester), () => {
    decide(enforced)
    const isRefused = enforced.some((each) => each.refuses)
    return isRefused ? undefined : askShadows(reached, requester)
  })
}

function askShadows (reached: readonly QuotaOfRequest[], requester: Requester): Eventual<void> {
  const asking: Promise<void>[] = []
  for (const each of reached) {
    if (each.quota.isEnforced) continue
    const asked = askTogether([each], requester)
    if (asked instanceof Promise) asking.push(asked)
  }
  if (asking.length > 0) return Promise.all(asking).then(() => {})
}

/** Asks nothing if one of the quotas refuses the request without its store. */
function askTogether (
  reached: readonly QuotaOfRequest[],
  requester: Requester
): Eventual<void> {
  const asked: QuotaOfRequest[] = []
  const demands: Demand[] = []
  let areSeveral = false
  for (const each of reached) {
    if (each.refuses) return
    if (each.demand === null) continue
    areSeveral ||= asked[0] !== undefined && asked[0].quota.store !== each.quota.store
    asked.push(each)
    demands.push(each.demand)
  }
  const [first] = asked
  if (first === undefined) return
  if (areSeveral) return askSeveral(asked, demands, requester)
  return then(acquireFrom(first.quota.store, demands, requester), (acquisitions) => {
    note(asked, acquisitions)
  })
}

/** @param acquisitions One for each of the quotas; null if the store failed. */
function note (asked: readonly QuotaOfRequest[], acquisitions: Acquisitions | null): void {
  if (acquisitions === null) {
    for (const each of asked) each.hasStoreFailed = true
    return
  }
  let index = 0
  for (const each of asked) {
    each.acquisition = acquisitions[index] ?? null
    index += 1
  }
}

/** Asks all stores at the same time. What one counts while another rejects is settled with 0. */
async function askSeveral (
  asked: readonly QuotaOfRequest[],
  demands: readonly Demand[],
  requester: Requester
): Promise<void> {
  const stores = asked.map(({ quota }) => quota.store)
  // At the start, it is not known which quotas meet in one request.
  if (stores.some((store) => store.settle === undefined)) {
    const error = new TypeError('of several stores of a request, each needs the function settle')
    logFailure(requester.log, error, 'the quota store failed; the request is not counted')
    return note(asked, null)
  }
  const failed = new Set<QuotaStore>()
  const acquisitions = await acquireSideBySide(
    demands,
    stores,
    async (store, part) => {
      const acquired = await acquireFrom(store, part, requester)
      if (acquired === null) failed.add(store)
      return acquired ?? part.map(() => null)
    },
    (store, acquisition) => {
      requester.server.open.wait(takeBack(store, acquisition, requester))
    }
  )
  note(asked, acquisitions)
  for (const each of asked) each.hasStoreFailed = failed.has(each.quota.store)
}

/** Returns null if the store fails, which is logged. */
function acquireFrom (
  store: QuotaStore,
  demands: readonly Demand[],
  requester: Requester
): Eventual<Acquisitions | null> {
  const { storeDurations } = requester.server.channels
  if (!storeDurations.hasSubscribers) return acquireChecked(store, demands, requester)
  const startedAt = performance.now()
  return then(acquireChecked(store, demands, requester), (acquisitions) => {
    storeDurations.publish((performance.now() - startedAt) / 1000)
    return acquisitions
  })
}

function acquireChecked (
  store: QuotaStore,
  demands: readonly Demand[],
  requester: Requester
): Eventual<Acquisitions | null> {
  try {
    const acquisitions: unknown = store.acquire(demands)
    if (isPromise(acquisitions)) return acquiredLater(acquisitions, demands, requester)
    assertAcquisitions(acquisitions, demands)
    return acquisitions
  } catch (error) {
    return noAcquisitions(error, demands, requester)
  }
}

async function acquiredLater (
  acquiring: PromiseLike<unknown>,
  demands: readonly Demand[],
  requester: Requester
): Promise<Acquisitions | null> {
  try {
    const acquisitions = await acquiring
    assertAcquisitions(acquisitions, demands)
    return acquisitions
  } catch (error) {
    return noAcquisitions(error, demands, requester)
  }
}

function noAcquisitions (error: unknown, demands: readonly Demand[], { log }: Requester): null {
  const counters = demands.map((demand) => demand.counters)
  logFailure(log, error, 'the quota store failed; the request is not counted', { counters })
  return null
}

/** Settles with 0 what was counted for a request that does not use it. Never rejects. */
export async function takeBack (
  store: QuotaStore,
  acquisition: Acquisition,
  { log }: Requester
): Promise<void> {
  try {
    await store.settle?.(acquisition, 0)
  } catch (error) {
    logFailure(log, error, 'what is not used could not be taken back from the quota store')
  }
}
